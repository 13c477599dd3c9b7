import { chmodSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { startPostgres } from '../../dev/embedded-postgres.ts';
import { applyMigrations } from '../../src/migrations/migrations.ts';
import { HAS_POOLER, startPooler } from '../../test/support/pooler.ts';

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
export type Store = Awaited<ReturnType<typeof openStore>>;

/** The pets that updates may pick are 1 to this number. */
export const usualPets = (pets: number) => pets - unusualPets.length;

/** Server connections of PgBouncer. */
const POOL_SIZE = 16;

const peerTables = new URL('peers/tables.sql', import.meta.url);

/**
 * Starts PostgreSQL with durable commits in a temporary folder, and PgBouncer before it, where this machine has it. The
 * service and the peer each have a database of their own.
 */
export async function startDatabase() {
  const folder = mkdtempSync(join(tmpdir(), 'inventory-bench-'));
  chmodSync(folder, 0o711); // the server runs as another account
  const server = await startPostgres(join(folder, 'postgres'), { throwaway: true });
  const session = new Client({ connectionString: server.url });
  await session.connect();
  // Checkpoints and cleaning up happen between the measurements, by fill(), not now and then within one.
  await session.query('ALTER SYSTEM SET max_wal_size = 8192');
  await session.query("ALTER SYSTEM SET checkpoint_timeout = '1h'");
  await session.query('ALTER SYSTEM SET autovacuum = off');
  await session.query('SELECT pg_reload_conf()');
  await session.query('CREATE DATABASE peer');
  await session.end();

  const peerUrl = new URL(server.url);
  peerUrl.pathname = 'peer';
  await applyMigrations(server.url);
  const own = await openStore(server.url);
  const peer = await openStore(peerUrl.href, readFileSync(peerTables, 'utf8'));
  const pooler = HAS_POOLER ? await startPooler(server.url, POOL_SIZE) : undefined;
  return {
    pid: server.pid,
    poolerPid: pooler?.pid,
    /** The service's store. */
    own,
    /** The same store behind PgBouncer. */
    pooled: pooler && { ...own, url: pooler.url },
    /** The store of the peer, on tables of its own. */
    peer,

    async [Symbol.asyncDispose](): Promise<void> {
      pooler?.stop();
      await own.close();
      await peer.close();
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** @param tables makes the tables where the database has none */
async function openStore(url: string, tables = '') {
  const session = new Client({ connectionString: url });
  await session.connect();
  const query = async <Row>(sql: string, values?: unknown[]) => (await session.query(sql, values)).rows as Row[];
  if (tables) await query(tables);
  await query('SET session_replication_role = replica'); // no trigger stands in the way of filling and emptying
  await query(
    `INSERT INTO api_key (id, name, key_sha256, scopes, expires_at, revoked_at, last_used_at)
     SELECT state, 'benchmark', sha256(key::bytea),
            CASE state WHEN 'readOnly' THEN '{inventory:read}' ELSE '{inventory:read,inventory:write}'::text[] END,
            CASE state WHEN 'expired' THEN now() - interval '1 minute' END,
            CASE state WHEN 'revoked' THEN now() - interval '1 minute' END, now()
       FROM json_each_text($1) AS keys (state, key)`,
    [JSON.stringify(keys)],
  );
  let untouched: { pets: number; expected: ExpectedList } | undefined;

  return {
    url,
    query,
    close: () => session.end(),

    /**
     * Puts the store into its first state, unless it still is: so many pets, no history, nothing left to clean up.
     *
     * @returns the list that everyone must send, as the database itself makes it
     */
    async fill(pets: number): Promise<ExpectedList> {
      if (untouched?.pets === pets) return untouched.expected;
      await query('TRUNCATE inventory_item, stock_change');
      await query(
        `INSERT INTO inventory_item (pet_id, quantity, status)
         SELECT id, id % 1000, (ARRAY['available', 'pending', 'sold'])[1 + id % 3]::pet_status
           FROM generate_series(1, $1::bigint) AS id
          UNION ALL SELECT id, 7, 'pending' FROM unnest($2::bigint[]) AS id`,
        [usualPets(pets), unusualPets],
      );
      await query('VACUUM ANALYZE');
      await query('CHECKPOINT');
      const [expected = { sha256: '', bytes: 0 }] = await query<ExpectedList>(
        `SELECT encode(sha256(body), 'hex') AS sha256, length(body) AS bytes
           FROM (SELECT convert_to('[' || string_agg(item, ',' ORDER BY pet_id) || ']', 'UTF8') AS body
                   FROM (SELECT pet_id, format('{"petId":%s,"quantity":%s,"status":"%s"}', pet_id, quantity, status) AS item
                           FROM inventory_item) AS items) AS list`,
      );
      untouched = { pets, expected };
      return expected;
    },

    /** Waits for updates that a load left unanswered: until no transaction is under way and none follows. */
    async settle(): Promise<void> {
      let before: string | null = null;
      for (let polls = 0; polls < 100; polls++) {
        const [now] = await query<{ snapshot: string | null }>(
          `SELECT CASE WHEN pg_snapshot_xmin(now) = pg_snapshot_xmax(now) THEN now::text END AS snapshot
             FROM pg_current_snapshot() AS now`,
        );
        if (now?.snapshot && now.snapshot === before) return;
        before = now?.snapshot ?? null;
        await sleep(100);
      }
      throw new Error('its updates do not end');
    },

    /** The next {@link fill} begins afresh. */
    expectWrites(): void {
      untouched = undefined;
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
      const isComplete = changes >= accepted && changes <= accepted + underWay;
      return isComplete ? undefined : `${accepted} updates accepted, ${changes} in history`;
    },
  };
}
