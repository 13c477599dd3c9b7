import { Client } from 'pg';
import { applyMigrations } from '../src/database/migrations.ts';
import type { Change, FinalState } from './final-state.ts';

/** A new, migrated database on the server of this URL. */
export async function createDatabase(serverUrl: string, name: string): Promise<Database> {
  await new Database(serverUrl).query(`CREATE DATABASE ${name}`);
  const url = new URL(serverUrl);
  url.pathname = name;
  await applyMigrations(url.href);
  return new Database(url.href);
}

/** One scenario's database. Every call takes a connection of its own, for none would live through the faults. */
export class Database {
  private readonly connectionString: string;

  constructor(connectionString: string) {
    this.connectionString = connectionString;
  }

  /** @param port another way to the server, such as a proxy's */
  url(port?: number): string {
    const url = new URL(this.connectionString);
    if (port !== undefined) url.port = String(port);
    return url.href;
  }

  /** Fills the store with pets 1 to `count`, each with its own number as its quantity, all available. */
  async stock(count: number): Promise<Map<number, number>> {
    await this.query(
      `INSERT INTO inventory_item SELECT n, n, 'available' FROM generate_series(1, ${count}) n ORDER BY n`,
    );
    await this.query('VACUUM ANALYZE inventory_item');
    return new Map(Array.from({ length: count }, (_, index) => [index + 1, index + 1]));
  }

  /** Changes a setting for the sessions of this database that begin from now on. */
  async set(name: string, value: string): Promise<void> {
    await this.query(`ALTER DATABASE ${new URL(this.connectionString).pathname.slice(1)} SET ${name} = '${value}'`);
  }

  /** Ends every session of this database but the one that does it. */
  async terminateSessions(): Promise<number> {
    const rows = await this.query(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`,
    );
    return rows.length;
  }

  /** The services' sessions, each by its process and its beginning. */
  async sessions(): Promise<string[]> {
    const rows = await this.query<{ session: string }>(
      `SELECT pid || ' since ' || backend_start AS session FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`,
    );
    return rows.map(({ session }) => session);
  }

  /** Locks one pet's row until the returned function is called. */
  async lockRow(petId: number): Promise<() => Promise<void>> {
    const client = new Client({ connectionString: this.connectionString });
    await client.connect();
    await client.query('BEGIN');
    await client.query('SELECT 1 FROM inventory_item WHERE pet_id = $1 FOR UPDATE', [petId]);
    return async () => {
      await client.query('ROLLBACK');
      await client.end();
    };
  }

  async finalState(): Promise<FinalState> {
    const readStart = performance.now();
    const items = await this.query<{ pet_id: string; quantity: number }>('SELECT pet_id, quantity FROM inventory_item');
    const readEnd = performance.now();
    const rows = await this.query<{ pet_id: string; before: number; after: number; request_id: string | null }>(
      `SELECT pet_id, quantity_before AS before, quantity_after AS after, request_id
         FROM stock_change WHERE quantity_before IS NOT NULL ORDER BY pet_id, id`,
    );
    const changes = new Map<number, Change[]>();
    for (const { pet_id, before, after, request_id } of rows) {
      const petId = Number(pet_id);
      const earlier = changes.get(petId) ?? [];
      changes.set(petId, earlier);
      earlier.push({ before, after, requestId: request_id });
    }
    const quantities = new Map(items.map(({ pet_id, quantity }) => [Number(pet_id), quantity]));
    return { readStart, readEnd, quantities, changes };
  }

  async query<T extends object>(sql: string): Promise<T[]> {
    const client = new Client({ connectionString: this.connectionString });
    await client.connect();
    try {
      return (await client.query<T>(sql)).rows;
    } finally {
      await client.end();
    }
  }
}
