import type { Client } from 'pg';
import { beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { Database } from '../../../test/support/database.ts';
import { expectExact, refill } from '../../../test/support/exact-lists.ts';
import { HAS_POOLER, startPooler } from '../../../test/support/pooler.ts';
import { type FaultyPostgres, startFaultyPostgres } from '../../../test/support/postgres-server.ts';
import { type TestService, startService } from '../../../test/support/service.ts';
import { applyMigrations } from '../../migrations/migrations.ts';
import { PrismaService } from '../../prisma.service.ts';

const FUTURE = '4611686018427387904';
const FAST = 'on';

let postgres: FaultyPostgres;
let service: TestService;
let another: TestService;
/** Past the services, as the table's owner. */
let owner: Client;

beforeAll(async () => {
  postgres = await startFaultyPostgres();
  await postgres.database.setSystem('SET autovacuum = off');
  service = await startService({ databaseUrl: postgres.url, settings: { FAST } });
  another = await startService({ databaseUrl: postgres.url, key: service.key, settings: { FAST } });
});
beforeEach(async () => {
  owner = await postgres.database.session();
  await refill(owner);
  await expectLists();
});

const sql = (statement: string) => owner.query(statement);
const expectLists = () => expectExact(owner, [service, another]);

function watchStatements() {
  const sent = vi.spyOn(service.app.get(PrismaService), '$queryRawUnsafe');
  onTestFinished(() => sent.mockRestore());
  return sent;
}

describe('the list is patched', () => {
  it('after 4,096 changes, and read whole after more, even if all are of one pet', async () => {
    const sent = watchStatements();
    await refill(owner, 4_097);
    await expectLists();
    const change = 'UPDATE inventory_item SET quantity = quantity + 1 WHERE pet_id <=';
    for (const [changes, count] of [
      [`${change} 4096`, 'patches'],
      [`${change} 4097`, 'readings'],
      [
        `INSERT INTO stock_change (pet_id, quantity_after, status_after, changed_by)
          SELECT 1, 3, 'available', 'test' FROM generate_series(1, 4097)`,
        'readings',
      ],
    ] as const) {
      const before = service.counts[count];
      await sql(changes);
      await expectLists();
      expect(service.counts[count]).toBe(before + 1);
      const [statement = '', ...values] = sent.mock.calls.findLast(([text]) => text.includes('recent')) ?? [];
      const { rows } = await owner.query<{ changes: unknown[] }>(statement, values);
      expect(rows[0]?.changes.length).toBeLessThanOrEqual(4_097); // it does not look up the others
    }
  });

  it.each([
    `stock_change (pet_id, quantity_after, status_after, changed_by, changed_in)
      SELECT n, 1, 'sold', 'test', '${FUTURE}' FROM generate_series(1, 5000) n`,
    `unrecorded_change VALUES ('${FUTURE}')`,
  ])('after "migrate" when there are rows from a server whose transaction ids lie ahead: %s', async (rows) => {
    await sql(`INSERT INTO ${rows}`);
    const { readings } = service.counts;
    await service.update(1, 10_001);
    await expectLists();
    expect(service.counts.readings).toBeGreaterThan(readings);
    await applyMigrations(postgres.url);
    await expectLists();
    const { patches } = service.counts;
    await service.update(1, 10_002);
    await expectLists();
    expect(service.counts.patches).toBe(patches + 1);
  });

  it('by looking up only the changes and their pets, however many there are', async () => {
    await refill(owner, 5_000);
    await sql('ANALYZE inventory_item');
    await expectLists();
    const sent = watchStatements();
    await service.update(2_500, 1);
    await expectLists();
    const [statement = '', ...values] = sent.mock.lastCall ?? [];
    await sql('SET enable_seqscan = off'); // as in every session for requests
    const { rows } = await owner.query<Record<'QUERY PLAN', string>>(`EXPLAIN ${statement}`, values);
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
    const scansOf = (table: string) => plan.split(/(?=->  )/).filter((node) => node.includes(` on ${table}`));
    expect(scansOf('inventory_item')).toEqual([expect.stringMatching(/Index Cond: \(pet_id = /)]);
    const ofChanges = ['stock_change', 'unrecorded_change'].flatMap(scansOf);
    expect(ofChanges.length).toBeGreaterThanOrEqual(4); // two for each
    for (const scan of ofChanges) expect(scan).toMatch(/(Index|Recheck) Cond: \(changed_in /);
  });
});

it('the list is read whole, and not kept, while a table has another access method than PostgreSQL itself', async () => {
  await sql('CREATE ACCESS METHOD heap2 TYPE TABLE HANDLER heap_tableam_handler');
  for (const table of ['inventory_item', 'stock_change']) {
    await sql(`ALTER TABLE ${table} SET ACCESS METHOD heap2`);
    await expectLists();
    for (let lists = 1; lists <= 2; lists++) {
      const { readings } = service.counts;
      await expectLists();
      expect(service.counts.readings).toBe(readings + 1);
    }
    await sql(`ALTER TABLE ${table} SET ACCESS METHOD heap`);
  }
  await sql('DROP ACCESS METHOD heap2');
  await expectLists();
  const { readings, patches } = service.counts;
  await service.update(1, 10_003);
  await expectLists();
  expect(service.counts).toMatchObject({ readings, patches: patches + 1 });
});

describe('services that share a database, behind a pooler if there is one', () => {
  let url: string;
  let services: TestService[];

  beforeEach(async () => {
    const { key } = service;
    url = HAS_POOLER ? (await startPooler(postgres.url, 3)).url : postgres.url;
    services = HAS_POOLER
      ? await Promise.all([1, 2].map(() => startService({ databaseUrl: url, key, settings: { FAST } })))
      : [service, another];
  });

  /** Several at once, so that a pooler spreads them over its sessions. */
  const lists = () => Promise.all([...services, ...services, ...services].map(({ list }) => list()));
  const readings = () => services.map((each) => each.counts.readings);

  it('read the stock whole once after each reset of the statistics under load, and otherwise only changes', async () => {
    await lists();
    const before = readings();
    let isOver = false as boolean;
    const load = services.flatMap((each, pet) => [
      (async () => {
        for (let quantity = 1; !isOver; quantity++) expect((await each.update(pet + 1, quantity)).status).toBe(200);
      })(),
      (async () => {
        while (!isOver) expect((await each.list()).status).toBe(200);
      })(),
    ]);
    onTestFinished(() => void (isOver = true));
    for (let resets = 1; resets <= 2; resets++) {
      await sql(`SELECT pg_stat_reset_shared('wal')`);
      for (let round = 0; round < 5; round++) await lists();
      // A session that asks for the server's life only now gets another name of it than those from before the reset.
      if (HAS_POOLER) await new Database(url).sql(`SET inventory.life = ''`);
      else
        await sql(
          `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'inventory key check'`,
        );
      for (let round = 0; round < 5; round++) await lists();
      expect(readings()).toEqual(before.map((count) => count + resets));
    }
    isOver = true;
    await Promise.all(load);
    await expectLists();
  });
});

it('PostgreSQL keeps the statistics that name its life over a restart, and resets them after a crash', async () => {
  const reset = async () => (await postgres.database.sql('SELECT stats_reset::text AS at FROM pg_stat_wal'))[0]?.['at'];
  const before = await reset();
  expect(before).toEqual(expect.any(String));
  await postgres.stop();
  await postgres.restart();
  expect(await reset()).toBe(before);
  await postgres.crash();
  await postgres.restart();
  expect(await reset()).not.toBe(before);
});
