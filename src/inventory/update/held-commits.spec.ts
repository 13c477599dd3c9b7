import { beforeAll, expect, it } from 'vitest';
import { Database, createDatabaseOn } from '../../../test/support/database.ts';
import { startReplicated } from '../../../test/support/postgres-server.ts';
import type { Query } from '../../lib/postgres/index.ts';
import { requireFreeCommits, STOP_AT_HELD_COMMITS } from './held-commits.ts';
import { InventoryCounts } from '../inventory-counts.ts';

let primary: Database;
let anotherStore: Database;
let anotherRole: Database;

beforeAll(async () => {
  const replicated = await startReplicated();
  ({ primary } = replicated);
  anotherStore = await createDatabaseOn(primary.url);
  await primary.sql(`CREATE ROLE shop LOGIN SUPERUSER PASSWORD 'shop'`);
  anotherRole = new Database(Object.assign(new URL(primary.url), { username: 'shop', password: 'shop' }).href);
  await replicated.awaitStandby();
  await replicated.loseStandby();
});

/** A commit that waits for the lost standby. It ends with the test. */
async function hold(name: string, database = primary): Promise<void> {
  const session = await database.session();
  await session.query(`SET application_name = '${name}'`);
  void session.query(`SELECT pg_logical_emit_message(true, '', '')`).catch(() => undefined);
}

it('counts the commits of the store that were given up, and lets four wait', async () => {
  const counts = new InventoryCounts();
  const query: Query = (sql, ...values) => primary.sql(sql, values);
  const roomAfter = (givenUpAfterMs: number) => () => requireFreeCommits(query, counts, givenUpAfterMs);
  const room = roomAfter(1_000);
  await hold('psql');
  await hold('inventory updates', anotherStore);
  await hold('inventory pool', anotherRole);
  const old = `SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query_start < clock_timestamp() - interval '1 s'`;
  await expect.poll(() => primary.sql(old)).toHaveLength(3);
  expect(await room()).toBe(STOP_AT_HELD_COMMITS);

  for (const name of ['inventory updates', 'inventory pool', 'inventory pool']) await hold(name);
  await expect.poll(room).toBe(STOP_AT_HELD_COMMITS - 3);
  expect(await roomAfter(9_000)()).toBe(STOP_AT_HELD_COMMITS); // they have not waited long enough
  await hold('inventory updates');
  await expect
    .poll(() => room().catch((error: unknown) => (error as Error).message))
    .toBe('sessions that were given up still wait for the synchronous standby');
  expect([counts.heldCommits, STOP_AT_HELD_COMMITS]).toEqual([4, 4]);
});
