import { setTimeout as pause } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { SeededRandom } from '../support/seeded-random.ts';
import type { Database } from '../support/database.ts';
import { startService, type TestService } from '../support/service.ts';
import { CSV_HEADER, exportedCsv, petsOf } from '../support/stock.ts';
import { IMPORT_CSV, inventory } from './inventory-command.ts';

const WRITING_MS = 4_000;
const UPDATED = Array.from({ length: 16 }, (_, n) => n + 1); // half by each service
const SQL_PETS = [21, 22, 23, 24];
const IMPORTED = Array.from({ length: 40 }, (_, n) => n + 101);

/** What a writer has made of a pet, and between which times. */
interface Written {
  readonly state: string;
  readonly sentAt: number;
  /** Infinite until it is acknowledged. */
  ackedAt: number;
}

/** By the database, in ms. */
type Clock = () => Promise<number>;

async function clockOf(database: Database): Promise<Clock> {
  const client = await database.session();
  const sql = 'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::float8 AS ms';
  return async () => (await client.query<{ ms: number }>(sql)).rows[0]?.ms ?? expect.fail();
}

it('the stock at a moment is the table as it was then, whoever wrote', async () => {
  const fast = await startService({ settings: { FAST: 'on' } });
  const { database, databaseUrl: url } = fast;
  const plain = await startService({ settings: { FAST: 'off' }, databaseUrl: url, key: fast.key });
  const random = new SeededRandom(20261125);
  const written = new Map<number, Written[]>();
  let writing = true;
  let turn = 0;

  /** Gives these pets a state. The work says whether it did. */
  async function write(
    now: Clock,
    pets: readonly number[],
    state: string,
    work: () => Promise<boolean>,
  ): Promise<void> {
    const entry = { state, sentAt: await now(), ackedAt: Infinity };
    const logs = pets.map((pet) => written.get(pet) ?? expect.fail());
    for (const log of logs) log.push(entry);
    if (await work()) entry.ackedAt = await now();
    else for (const log of logs) log.splice(log.indexOf(entry), 1);
  }
  async function update(service: TestService, pet: number): Promise<void> {
    const clock = await clockOf(database);
    while (writing) {
      const quantity = ++turn;
      await write(
        clock,
        [pet],
        `${quantity},available`,
        async () => (await service.update(pet, quantity)).status === 200,
      );
    }
  }
  /** Several changes in one transaction, which stays open for a while; one in five is rolled back. */
  async function writeSql(pet: number): Promise<void> {
    const client = await database.session();
    const clock = await clockOf(database);
    while (writing) {
      const isAbsent = random.chance(0.3);
      const quantity = ++turn;
      await write(clock, [pet], isAbsent ? 'absent' : `${quantity},sold`, async () => {
        const isKept = random.chance(0.8);
        await client.query('BEGIN');
        await pause(random.between(0, 20));
        await client.query(`DELETE FROM inventory_item WHERE pet_id = ${pet}`);
        await client.query(`INSERT INTO inventory_item VALUES (${pet}, 0, 'pending')`);
        await pause(random.between(0, 20));
        await client.query(
          isAbsent
            ? `DELETE FROM inventory_item WHERE pet_id = ${pet}`
            : `UPDATE inventory_item SET quantity = ${quantity}, status = 'sold' WHERE pet_id = ${pet}`,
        );
        await client.query(isKept ? 'COMMIT' : 'ROLLBACK');
        return isKept;
      });
    }
    await client.end();
  }
  async function writeByImport(): Promise<void> {
    const clock = await clockOf(database);
    while (writing) {
      const quantity = ++turn;
      const file = CSV_HEADER + IMPORTED.map((pet) => `${pet},${quantity},available\n`).join('');
      await write(clock, IMPORTED, `${quantity},available`, async () => {
        const { code } = await inventory(url, [...IMPORT_CSV, '--quiet'], file);
        return code === 0;
      });
    }
  }
  async function truncate(): Promise<void> {
    while (writing) {
      await database.sql(`BEGIN; LOCK TABLE inventory_item; CREATE TEMP TABLE same ON COMMIT DROP AS TABLE inventory_item;
        TRUNCATE inventory_item; INSERT INTO inventory_item TABLE same; COMMIT`);
      await pause(300);
    }
  }

  const copies: { id: string; stock: string }[] = [];
  /** Copies the table, and the newest id, while all writers are held. */
  async function copy(): Promise<void> {
    const holder = await database.session(
      'LOCK TABLE inventory_item IN ACCESS SHARE MODE',
      'LOCK TABLE stock_change IN SHARE ROW EXCLUSIVE MODE',
    );
    const { rows } = await holder.query<{ id: string; stock: string }>(
      `SELECT (SELECT max(id) FROM stock_change) AS id, coalesce(string_agg(concat_ws(',', pet_id, quantity, status) || E'\\n', '' ORDER BY pet_id), '') AS stock
         FROM inventory_item`,
    );
    copies.push(...rows);
    await holder.end();
  }

  const exportAt = async (moment: string) => {
    const { code, stdout, stderr } = await inventory(url, ['export', '--at', moment]);
    expect([code, stdout.startsWith(exportedCsv())], stderr).toEqual([0, true]);
    return petsOf(stdout);
  };
  const atTime = (ms: number) => exportAt(new Date(ms).toISOString());

  const now = await clockOf(database);
  const pets = [...UPDATED, ...SQL_PETS, ...IMPORTED];
  await fast.stock(...pets.map((pet) => [pet, 0] as const));
  const [sentAt, ackedAt] = [0, await now()];
  for (const pet of pets) written.set(pet, [{ state: '0,available', sentAt, ackedAt }]);
  const writers = [
    ...UPDATED.map((pet) => update(pet % 2 === 0 ? fast : plain, pet)),
    ...SQL_PETS.map(writeSql),
    writeByImport(),
    truncate(),
  ];
  const moments: number[] = [];
  const meanwhile: Promise<{ ms: number; stock: string }>[] = [];
  const until = performance.now() + WRITING_MS;
  try {
    while (performance.now() < until || copies.length < 4) {
      const ms = await now();
      moments.push(ms);
      if (meanwhile.length < 3) meanwhile.push(atTime(ms).then((stock) => ({ ms, stock })));
      await pause(random.between(100, 400));
      await copy();
    }
  } finally {
    writing = false;
    await Promise.all(writers);
  }

  for (const { id, stock } of copies) expect(await exportAt(id)).toBe(stock);
  for (const { ms, stock } of await Promise.all(meanwhile)) expect(await atTime(ms)).toBe(stock);
  for (const ms of moments) {
    const lines = (await atTime(ms)).trim().split('\n');
    const states = new Map(lines.map((line) => [Number(line.split(',', 1)[0]), line.slice(line.indexOf(',') + 1)]));
    for (const [pet, log] of written) {
      // One of those that began by the moment, and none before the last that was acknowledged by then.
      const begun = log.filter(({ sentAt }) => sentAt <= ms);
      const from = Math.max(
        0,
        begun.findLastIndex(({ ackedAt }) => ackedAt <= ms),
      );
      const possible = begun.slice(from).map(({ state }) => state);
      expect(possible, `pet ${pet} at ${ms}`).toContain(states.get(pet) ?? 'absent');
    }
    expect([...states.keys()].filter((pet) => !written.has(pet))).toEqual([]);
  }
  expect(turn).toBeGreaterThan(50);
});
