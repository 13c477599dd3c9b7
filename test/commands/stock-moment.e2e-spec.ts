import { setTimeout as pause } from 'node:timers/promises';
import type { Client } from 'pg';
import { beforeEach, describe, expect, it } from 'vitest';
import { applyMigrations } from '../../src/migrations/migrations.ts';
import type { Database } from '../support/database.ts';
import { atTestEnd } from '../support/test-end.ts';
import { HAS_POOLER, startPooler } from '../support/pooler.ts';
import { exportedCsv, itemText, petsOf } from '../support/stock.ts';
import { EXPORT_FAILED, failed, inventory, untilSessionOf } from './inventory-command.ts';
import { openStore, type Store } from './store.ts';

const lineOf = (moment: string, last: string) => `stock at ${moment}: the last change that counts is ${last}\n`;
const NOW = `SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS now`;

/** By the clock of the database, in microseconds. */
async function now(database: Pick<Database, 'sql'>): Promise<string> {
  return (await database.sql<{ now: string }>(NOW))[0]?.now ?? expect.fail();
}

function refused(reason: string) {
  return failed(reason, EXPORT_FAILED);
}

function refusedPruned(moment: string, earliest: string) {
  return refused(
    `the history does not tell the stock at ${moment}, because changes were pruned; the earliest moment is ${earliest}`,
  );
}

describe('inventory export --at', () => {
  let store: Store;
  beforeEach(async () => {
    store = await openStore();
  });

  const at = (moment: string, ...more: string[]) => store.inventory('export', '--at', moment, ...more);

  const stockAt = async (moment: string) => petsOf((await at(moment)).stdout);

  /** Gives the changes so far these times, in milliseconds and microseconds after midnight. */
  const setTimes = (...times: string[]) =>
    store.rewriteHistory(
      times
        .map((ms, n) => `UPDATE stock_change SET changed_at = '2026-01-01T00:00:0${ms}Z' WHERE id = ${n + 1}`)
        .join(';'),
    );

  it('writes the stock after each change, also between the changes of one transaction, in every format', async () => {
    await store.sql(`INSERT INTO inventory_item VALUES (1, 5, 'available'), (-9223372036854775808, 6, 'sold')`);
    await store.sql(`BEGIN; UPDATE inventory_item SET quantity = 7 WHERE pet_id = 1;
      UPDATE inventory_item SET quantity = 8, status = 'pending' WHERE pet_id = 1; COMMIT`);
    await store.sql(`DELETE FROM inventory_item WHERE pet_id = 1`);
    await store.sql(`INSERT INTO inventory_item VALUES (1, 9, 'sold')`);
    await store.sql(`UPDATE inventory_item SET pet_id = 2 WHERE pet_id = 1`);
    await store.sql(`TRUNCATE inventory_item`);
    const other = '-9223372036854775808,6,sold\n';
    const stocks: string[] = [];
    for (let id = 0; id <= 10; id++) stocks.push(await stockAt(String(id)));
    expect(stocks).toEqual([
      '',
      '1,5,available\n',
      `${other}1,5,available\n`,
      `${other}1,7,available\n`,
      `${other}1,8,pending\n`,
      other,
      `${other}1,9,sold\n`,
      other, // the pet has another id: the first of two changes
      `${other}2,9,sold\n`,
      ...(await store.sql(`SELECT pet_id = 2 AS first FROM stock_change WHERE id = 9`)).map(({ first }) =>
        first ? other : '2,9,sold\n',
      ),
      '',
    ]);
    const items = [itemText('-9223372036854775808', 6, 'sold'), itemText(1, 8, 'pending')];
    expect((await at('4', '--format', 'ndjson')).stdout).toBe(items.map((item) => `${item}\n`).join(''));
    expect((await at('4', '--format', 'json')).stdout).toBe(`[\n ${items.join('\n,')}\n]\n`);
  });

  it('counts whole milliseconds, cuts further digits, and names the last change that counts', async () => {
    await store.sql(`INSERT INTO inventory_item VALUES (1, 1, 'sold')`);
    for (const quantity of [2, 3, 4, 5]) await store.sql(`UPDATE inventory_item SET quantity = ${quantity}`);
    await setTimes('1.000000', '2.000000', '2.000999', '2.001000', '3.000000');
    const at2000 = lineOf('2026-01-01T00:00:02.000Z', '3, 2026-01-01T00:00:02.000Z');
    for (const [moment, quantity, line] of [
      ['2026-01-01T00:00:02Z', 3, at2000],
      ['2026-01-01T00:00:02.0Z', 3, at2000],
      ['2026-01-01T00:00:02.000999999Z', 3, at2000],
      ['2026-01-01T01:00:02.001+01:00', 4, lineOf('2026-01-01T00:00:02.001Z', '4, 2026-01-01T00:00:02.001Z')],
      ['2026-01-01T00:00:01.999999999Z', 1, lineOf('2026-01-01T00:00:01.999Z', '1, 2026-01-01T00:00:01.000Z')],
      ['2026-02-01', 5, lineOf('2026-02-01T00:00:00.000Z', '5, 2026-01-01T00:00:03.000Z')],
      ['4', 4, lineOf('change 4', '4, 2026-01-01T00:00:02.001Z')],
    ] as const)
      expect([moment, await at(moment)]).toEqual([
        moment,
        { code: 0, stdout: exportedCsv(`1,${quantity},sold\n`), stderr: line },
      ]);
    for (const [moment, name] of [
      ['0', 'change 0'],
      ['2026-01-01T00:00Z', '2026-01-01T00:00:00.000Z'],
    ] as const)
      expect(await at(moment)).toEqual({
        code: 0,
        stdout: exportedCsv(),
        stderr: `stock at ${name}: no change counts\n`,
      });
    const ago = await at('0s');
    expect(ago.stdout).toBe(exportedCsv('1,5,sold\n'));
    expect(ago.stderr).toMatch(/^stock at 20\S+Z: the last change that counts is 5, 2026-01-01T00:00:03.000Z\n$/);
  });

  it('takes the state before the first later change by id, although a change with a higher id has an earlier time', async () => {
    await store.sql(`INSERT INTO inventory_item VALUES (1, 1, 'sold'), (2, 1, 'sold')`);
    await store.sql(`UPDATE inventory_item SET quantity = 2 WHERE pet_id = 1`);
    await store.sql(`UPDATE inventory_item SET quantity = 3 WHERE pet_id = 1`); // of a transaction that began earlier
    await store.sql(`UPDATE inventory_item SET quantity = 4 WHERE pet_id = 2`); // as does this
    await setTimes('1', '1', '3', '2', '2');
    expect(await at('2026-01-01T00:00:02Z')).toEqual({
      code: 0,
      stdout: exportedCsv('1,1,sold\n2,4,sold\n'),
      stderr: lineOf('2026-01-01T00:00:02.000Z', '5, 2026-01-01T00:00:02.000Z'),
    });
  });

  it('refuses a moment that has not come', async () => {
    await store.sql(`INSERT INTO inventory_item VALUES (1, 1, 'sold'); DELETE FROM inventory_item`);
    expect(await at('3')).toEqual(refused('there is no change 3, the newest is 2: was the database restored?'));
    const { code, stdout, stderr } = await at('9999-12-31');
    expect({ code, stdout }).toEqual({ code: 1, stdout: EXPORT_FAILED });
    expect(stderr).toMatch(
      /^error: 9999-12-31T00:00:00.000Z lies in the future by the database's clock, which says 20\S+Z\n$/,
    );
  });

  it('refuses a moment before the newest pruned change', async () => {
    await store.sql(`INSERT INTO inventory_item VALUES (1, 1, 'sold'), (2, 1, 'sold')`);
    for (const quantity of [2, 3]) await store.sql(`UPDATE inventory_item SET quantity = ${quantity} WHERE pet_id = 1`);
    await setTimes('1', '2', '3.123456', '4');
    expect(await stockAt('0')).toBe('');
    await store.inventory('history', 'prune', '--before', '2026-01-02'); // changes 1 and 3
    expect(await at('2')).toEqual(refusedPruned('change 2', 'change 3'));
    expect(await at('3')).toMatchObject({ code: 0, stdout: exportedCsv('1,2,sold\n2,1,sold\n') });
    expect((await at('3')).stderr).toBe(lineOf('change 3', '3, pruned'));
    expect(await at('2026-01-01T00:00:03.122Z')).toEqual(
      refusedPruned('2026-01-01T00:00:03.122Z', '2026-01-01T00:00:03.123Z'),
    );
    expect(await at('2026-01-01T00:00:03.123Z')).toMatchObject({
      code: 0,
      stdout: exportedCsv('1,2,sold\n2,1,sold\n'),
    });

    // Of two pets, the change with the lower id can have the later time.
    await store.sql(`UPDATE inventory_item SET quantity = 9`);
    await store.rewriteHistory(`UPDATE stock_change SET changed_at = '2026-01-03' WHERE id = 2;
      UPDATE stock_change SET changed_at = '2026-01-02' WHERE id = 4`);
    await store.inventory('history', 'prune', '--before', '2026-01-04');
    expect(await at('3')).toEqual(refusedPruned('change 3', 'change 4'));
    expect(await at('2026-01-02T12:00Z')).toEqual(
      refusedPruned('2026-01-02T12:00:00.000Z', '2026-01-03T00:00:00.000Z'),
    );
  });

  it('refuses by name the pets whose later changes do not link up to their present stock', async () => {
    const unrecorded = `SET session_replication_role = replica; UPDATE inventory_item SET quantity = 0 WHERE pet_id IN (2, 3);
      DELETE FROM inventory_item WHERE pet_id = 5; INSERT INTO inventory_item VALUES (6, 1, 'sold');
      RESET session_replication_role`;
    await store.sql(`INSERT INTO inventory_item SELECT n, 1, 'sold' FROM generate_series(1, 5) AS n`);
    await store.sql('UPDATE inventory_item SET quantity = 2');
    await store.sql('DELETE FROM inventory_item WHERE pet_id = 4'); // change 11
    await store.sql(unrecorded);
    await store.sql('UPDATE inventory_item SET quantity = 3 WHERE pet_id = 3'); // change 12
    const broken = (moment: string, count: number, pets: string) =>
      refused(`the history does not tell the stock at ${moment}: of ${count} pets, the changes after it do not link up to the present stock: ${pets}
"inventory history --verify" tells more`);
    expect(await at('5')).toEqual(broken('change 5', 3, '2, 3, 5'));
    expect(await at('9')).toEqual(broken('change 9', 1, '5'));
    // Pet 3 links up from its last change on; of the others nothing is known, because they have no later change.
    expect(await at('11')).toMatchObject({ code: 0, stdout: exportedCsv('1,2,sold\n2,0,sold\n3,0,sold\n6,1,sold\n') });
    await store.sql(`SET session_replication_role = replica; INSERT INTO inventory_item SELECT n, 1, 'sold' FROM generate_series(10, 39) AS n;
      RESET session_replication_role; UPDATE inventory_item SET quantity = 5 WHERE pet_id > 9;
      SET session_replication_role = replica; UPDATE inventory_item SET quantity = 6 WHERE pet_id > 9; RESET session_replication_role`);
    const twenty = Array.from({ length: 20 }, (_, n) => n + 10).join(', ');
    expect(await at('12')).toEqual(broken('change 12', 30, `${twenty}, …`));
  });

  it.each(['time', 'id'])('says, by %s, that changes without history lie after the moment', async (form) => {
    await store.sql(`INSERT INTO inventory_item VALUES (1, 1, 'sold'), (2, 1, 'sold')`);
    const time = (await now(store)).slice(0, 23) + 'Z';
    const before = form === 'time' ? time : '2';
    await pause(2); // moments are told apart by the millisecond
    await store.sql(`SET session_replication_role = replica; DELETE FROM inventory_item WHERE pet_id = 2;
      RESET session_replication_role`);
    await store.sql('UPDATE inventory_item SET quantity = 2');
    const lacks = `after this moment, changes were made without history, which this file cannot know; "inventory history --verify" names their pets\n`;
    const { code, stdout, stderr } = await at(before);
    expect({ code, stdout }).toEqual({ code: 0, stdout: exportedCsv('1,1,sold\n') });
    expect(stderr).toMatch(new RegExp(`^stock at .*\\n${lacks}$`));
    expect((await at(form === 'time' ? '0s' : '3')).stderr).not.toContain(lacks);
  });

  it('counts by the ids and times that a restored history has', async () => {
    await store.sql(`INSERT INTO inventory_item VALUES (1, 1, 'sold')`);
    for (const quantity of [2, 3]) await store.sql(`UPDATE inventory_item SET quantity = ${quantity}`);
    await setTimes('1', '2', '3');
    await store.rewriteHistory(`UPDATE stock_change SET changed_in = '4611686018427387904' WHERE id < 3`);
    await applyMigrations(store.url);
    expect(await stockAt('1')).toBe('1,1,sold\n');
    expect(await stockAt('2026-01-01T00:00:02Z')).toBe('1,2,sold\n');
  });

  describe('waits for transactions that were open', () => {
    beforeEach(() => store.sql(`INSERT INTO inventory_item VALUES (1, 1, 'sold'), (2, 1, 'sold')`));

    /** The outcome once the command waits, and once these statements have ended what it waits for. */
    async function afterWait(outcome: ReturnType<typeof inventory>, early: Client, statements: string) {
      await untilSessionOf('export', store.database, `backend_start < now() - interval '3 seconds'`);
      await early.query(statements);
      const { code, stdout, stderr } = await outcome;
      expect(stderr).toMatch(/^waiting for open transactions, which may still commit changes that count\n/);
      return { code, stdout };
    }

    const UPDATED = 'UPDATE inventory_item SET quantity = 2 WHERE pet_id = 1; COMMIT';
    const stdout = exportedCsv('1,2,sold\n2,1,sold\n');

    it('at that time, even if they had written nothing, and for no later one', async () => {
      const early = await store.database.session('SELECT 1');
      const moment = await now(store);
      await pause(2); // moments are told apart by the millisecond
      await store.database.session('UPDATE inventory_item SET quantity = 9 WHERE pet_id = 2');
      expect(await afterWait(at(moment), early, UPDATED)).toEqual({ code: 0, stdout });
    });

    it('also if their role hides when they began', async () => {
      const url = new URL(store.url);
      Object.assign(url, { username: `blind_${url.pathname.slice(-12)}`, password: 'x' });
      await store.sql(`CREATE ROLE ${url.username} LOGIN PASSWORD 'x' IN ROLE pg_read_all_data`);
      await atTestEnd(() => store.sql(`DROP ROLE ${url.username}`));
      const early = await store.database.session('SELECT 1');
      const exported = inventory(url.href, ['export', '--at', await now(store)]);
      expect(await afterWait(exported, early, UPDATED)).toEqual({ code: 0, stdout });
    });

    it('and that COMMIT AND CHAIN dates back to that time', async () => {
      await store.sql(`
        CREATE TABLE slow ();
        CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NULL; END';
        CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait()`);
      const holder = await store.database.session('SELECT pg_advisory_xact_lock(1)');
      const early = await store.database.session('INSERT INTO slow DEFAULT VALUES');
      const committed = early.query('COMMIT AND CHAIN');
      await expect.poll(() => store.database.waitingForLocks()).toBe(1);
      const updated = committed.then(() => pause(500)).then(() => early.query(UPDATED)); // a command that has not seen it would end
      expect(await afterWait(at(await now(store)), holder, 'COMMIT')).toEqual({ code: 0, stdout });
      await updated;
    });

    it('and that have an earlier id', async () => {
      const early = await store.database.session('UPDATE inventory_item SET quantity = 2 WHERE pet_id = 1'); // change 3
      await store.sql('UPDATE inventory_item SET quantity = 2 WHERE pet_id = 2');
      const stdout = exportedCsv('1,2,sold\n2,2,sold\n');
      expect(await afterWait(at('4'), early, 'COMMIT')).toEqual({ code: 0, stdout });
    });
  });

  it.runIf(HAS_POOLER)('works behind PgBouncer', async () => {
    await store.sql(`INSERT INTO inventory_item VALUES (1, 1, 'sold'); UPDATE inventory_item SET quantity = 2`);
    const pooler = await startPooler(store.url, 2);
    expect(await inventory(pooler.url, ['export', '--at', '1'])).toMatchObject({ stdout: exportedCsv('1,1,sold\n') });
    expect(await inventory(pooler.url, ['export', '--at', '0s'])).toMatchObject({ stdout: exportedCsv('1,2,sold\n') });
  });
});
