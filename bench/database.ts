import { createHash, hash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { startPostgres } from '../dev/embedded-postgres.ts';
import { applyMigrations } from '../src/database/migrations.ts';

/** Keys of the benchmark's own database, which lives as long as the benchmark does. */
export const keys = {
  good: 'psk_benchmark0000000000000000000000000000000000000001',
  readOnly: 'psk_benchmark0000000000000000000000000000000000000002',
  expired: 'psk_benchmark0000000000000000000000000000000000000003',
  revoked: 'psk_benchmark0000000000000000000000000000000000000004',
} as const;

/** Besides 1, 2, 3 … every store holds these, which a rounded number would spoil. */
const unusualPets = ['-9223372036854775808', '-42', '9007199254740993', '9223372036854775807'];

export interface ExpectedList {
  sha256: string;
  bytes: number;
}

export type BenchDatabase = Awaited<ReturnType<typeof startDatabase>>;

/** The pets that updates may pick are 1 to this number. */
export const usualPets = (pets: number) => pets - unusualPets.length;

/** Starts PostgreSQL with durable commits in a temporary folder and brings it to the present schema. */
export async function startDatabase() {
  const folder = mkdtempSync(join(tmpdir(), 'inventory-bench-'));
  const server = await startPostgres(join(folder, 'postgres'), { throwaway: true });
  await applyMigrations(server.url);
  const session = new Client({ connectionString: server.url });
  await session.connect();
  // Checkpoints and cleaning up happen between the measurements, by fill(), not now and then within one.
  await session.query('ALTER SYSTEM SET max_wal_size = 8192');
  await session.query("ALTER SYSTEM SET checkpoint_timeout = '1h'");
  await session.query('ALTER SYSTEM SET autovacuum = off');
  await session.query('SELECT pg_reload_conf()');
  await session.query('SET session_replication_role = replica'); // no trigger stands in the way of filling and emptying
  await addKeys(session);
  const { rows } = await session.query<{ version: string }>("SELECT current_setting('server_version') AS version");

  const query = async <Row>(sql: string, values?: unknown[]) => (await session.query(sql, values)).rows as Row[];
  return {
    url: server.url,
    pid: server.pid,
    version: rows[0]?.version ?? '',
    query,
    /** Puts the store into the same state as ever: so many pets, no history, nothing left to clean up. */
    async fill(pets: number): Promise<void> {
      await query('TRUNCATE inventory_item, stock_change');
      await query(
        `INSERT INTO inventory_item (pet_id, quantity, status)
         SELECT id, id % 1000, (ARRAY['available', 'pending', 'sold'])[1 + id % 3]::pet_status
           FROM generate_series(1, $1::bigint) AS id`,
        [usualPets(pets)],
      );
      await query(
        `INSERT INTO inventory_item (pet_id, quantity, status) SELECT id, 7, 'pending' FROM unnest($1::bigint[]) AS id`,
        [unusualPets],
      );
      await query('VACUUM ANALYZE');
      await query('CHECKPOINT');
    },
    /** The list that everyone must send, made by the database itself. */
    async expectedList(): Promise<ExpectedList> {
      const rows = await query<{ items: string }>(
        `SELECT string_agg(format('{"petId":%s,"quantity":%s,"status":"%s"}', pet_id, quantity, status), ',' ORDER BY pet_id) AS items
           FROM (SELECT *, row_number() OVER (ORDER BY pet_id) / 10000 AS part FROM inventory_item) AS numbered
          GROUP BY part ORDER BY part`,
      );
      const body = createHash('sha256');
      let bytes = 2;
      body.update('[');
      for (const [part, { items }] of rows.entries()) {
        const text = part === 0 ? items : `,${items}`;
        body.update(text);
        bytes += Buffer.byteLength(text);
      }
      return { sha256: body.update(']').digest('hex'), bytes };
    },
    /** @returns what is wrong with the history after so many accepted updates, or undefined */
    async faultInHistory(accepted: number, underWay: number): Promise<string | undefined> {
      const [found] = await query<{ changes: number; broken: number; lost: number }>(
        `WITH chain AS (
           SELECT pet_id, quantity_before, quantity_after,
                  lag(quantity_after) OVER pet AS previous, lead(id) OVER pet IS NULL AS newest
             FROM stock_change WINDOW pet AS (PARTITION BY pet_id ORDER BY id)
         )
         SELECT count(*)::int AS changes,
                count(*) FILTER (WHERE previous <> quantity_before)::int AS broken,
                count(*) FILTER (WHERE newest AND quantity IS DISTINCT FROM quantity_after)::int AS lost
           FROM chain LEFT JOIN inventory_item USING (pet_id)`,
      );
      const { changes = 0, broken = 0, lost = 0 } = found ?? {};
      if (broken > 0) return `${broken} history rows do not continue from the one before`;
      if (lost > 0) return `${lost} pets do not have the quantity of their newest history row`;
      if (changes < accepted || changes > accepted + underWay)
        return `${accepted} updates accepted, ${changes} in history`;
      return undefined;
    },
    async [Symbol.asyncDispose](): Promise<void> {
      await session.end();
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function addKeys(session: Client): Promise<void> {
  const all = ['inventory:read', 'inventory:write'];
  const past = new Date(Date.now() - 60_000);
  const rows = [
    [keys.good, all, null, null],
    [keys.readOnly, ['inventory:read'], null, null],
    [keys.expired, all, past, null],
    [keys.revoked, all, null, past],
  ] as const;
  for (const [index, [key, scopes, expiresAt, revokedAt]] of rows.entries()) {
    await session.query(
      `INSERT INTO api_key (id, name, key_sha256, scopes, expires_at, revoked_at, last_used_at)
       VALUES ($1, 'benchmark', $2, $3, $4, $5, now())`,
      [`bench${index}`, hash('sha256', key, 'buffer'), scopes, expiresAt, revokedAt],
    );
  }
}
