import { hash, randomUUID } from 'node:crypto';
import { Client } from 'pg';
import { applyMigrations } from '../../src/migrations/migrations.ts';
import { type Pet, stockStatement } from './stock.ts';
import { atTestEnd } from './test-end.ts';

/** Reads and writes a PostgreSQL database without the service. */
export class Database {
  /** For DATABASE_URL. */
  readonly url: string;

  private readonly serverUrl: string;

  /** @param serverUrl another database of the same server, from which {@link drop} runs */
  constructor(url: string, serverUrl = url) {
    this.url = url;
    this.serverUrl = serverUrl;
  }

  /** Runs one or more statements on a new connection, because faults would end a kept one. Gives int8 as text. */
  async sql<Row extends object = Record<string, unknown>>(
    statement: string,
    args: readonly unknown[] = [],
  ): Promise<Row[]> {
    const session = await this.session();
    try {
      return (await session.query<Row>(statement, [...args])).rows;
    } finally {
      await session.end();
    }
  }

  /** A connection with these statements in an open transaction, if there are any. It ends with its test. */
  async session(...begun: readonly string[]): Promise<Client> {
    const client = new Client({ connectionString: this.url });
    client.on('error', () => undefined); // tests that kill the database check what follows
    await client.connect();
    await atTestEnd(() => client.end());
    if (begun.length > 0) await client.query(`BEGIN; ${begun.join(';')}`);
    return client;
  }

  /** Adds pets, or sets existing ones. */
  async stock(...pets: readonly Pet[]): Promise<void> {
    await this.sql(...stockStatement(pets));
  }

  /** Adds the pets that a query gives, without a history, which would take most of the time. */
  async fill(query: string): Promise<void> {
    await this.sql(`ALTER TABLE inventory_item DISABLE TRIGGER USER; INSERT INTO inventory_item ${query};
      ALTER TABLE inventory_item ENABLE TRIGGER USER; ALTER TABLE inventory_item ENABLE REPLICA TRIGGER inventory_item_replicated`);
  }

  /** Stores a key. By default it may list and update; `columns` changes its row. */
  async addKey(key: string, columns: Readonly<Record<string, unknown>> = {}): Promise<void> {
    const scopes = ['inventory:read', 'inventory:write'];
    const row = { id: key.slice(-8), name: 'test', key_sha256: hash('sha256', key, 'buffer'), scopes, ...columns };
    const places = Object.keys(row).map((_, at) => `$${at + 1}`);
    await this.sql(`INSERT INTO api_key (${Object.keys(row).join()}) VALUES (${places.join()})`, Object.values(row));
  }

  /** Locks one pet's row until the returned function is called, or the test ends. */
  async lockRow(petId: number): Promise<() => Promise<void>> {
    const holder = await this.session(`SELECT FROM inventory_item WHERE pet_id = ${petId} FOR UPDATE`);
    return () => holder.end();
  }

  /** Changes a setting for new sessions of this database. */
  async set(name: string, value: string): Promise<void> {
    await this.sql(`ALTER DATABASE ${new URL(this.url).pathname.slice(1)} SET ${name} = '${value}'`);
  }

  /** Changes settings of the whole server. */
  async setSystem(...settings: readonly string[]): Promise<void> {
    for (const setting of settings) await this.sql(`ALTER SYSTEM ${setting}`);
    await this.sql('SELECT pg_reload_conf()');
  }

  /** The other sessions, each by its process and its start. */
  async sessions(): Promise<string[]> {
    const rows = await this.sql<{ session: string }>(
      `SELECT pid || ' since ' || backend_start AS session FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`,
    );
    return rows.map(({ session }) => session);
  }

  /** How many sessions wait for a lock. */
  async waitingForLocks(): Promise<number> {
    const rows = await this.sql(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    );
    return rows.length;
  }

  /** Ends every other session. */
  async cutSessions(): Promise<void> {
    await this.sql(
      `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`,
    );
  }

  /** Ends all sessions and removes the database. */
  async drop(): Promise<void> {
    const name = new URL(this.url).pathname.slice(1);
    await new Database(this.serverUrl).sql(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
  }
}

/**
 * Creates a migrated database without pets or keys in some 30 ms. It is dropped at the end of
 * the test, or of the file whose hook creates it. `{ migrated: false }` gives an empty database.
 */
export async function createDatabase({ migrated = true } = {}): Promise<Database> {
  const { inject } = await import('vitest');
  const database = await createOn(inject('postgresUrl'), migrated ? inject('templateDatabase') : 'template0');
  await atTestEnd(() => database.drop());
  return database;
}

/** Creates a migrated database on a server without a template. */
export async function createDatabaseOn(serverUrl: string): Promise<Database> {
  const database = await createOn(serverUrl, 'template0');
  await applyMigrations(database.url);
  return database;
}

async function createOn(serverUrl: string, template: string): Promise<Database> {
  const name = `inventory_test_${randomUUID().replaceAll('-', '')}`;
  // In files: the default writes the template to the log, which takes three times as long.
  await new Database(serverUrl).sql(`CREATE DATABASE ${name} TEMPLATE ${template} STRATEGY file_copy`);
  const url = new URL(serverUrl);
  url.pathname = name;
  return new Database(url.href, serverUrl);
}
