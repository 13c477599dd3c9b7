import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Change } from '../../src/history/history-feed.ts';
import { HISTORY_LOCK } from '../../src/history/history-lock.ts';
import { pruneBefore } from '../../src/history/history-pruning.ts';
import { verifyHistory } from '../../src/history/history-verification.ts';
import { atTestEnd } from '../support/test-end.ts';
import { failed, inventory, printed } from './inventory-command.ts';
import { openStore, type Store } from './store.ts';

let store: Store;
beforeAll(async () => {
  store = await openStore();
});

beforeEach(async () => {
  await store.sql('ROLLBACK'); // of what a failed test has begun
  await store.sql('TRUNCATE inventory_item');
  await store.rewriteHistory('TRUNCATE stock_change');
});

const verify = (...more: string[]) => store.inventory('history', '--verify', ...more);

/** Begins a transaction whose changes the history does not record. */
const RECORDED_ALREADY = `BEGIN; SELECT set_config('inventory.recorded_in', pg_current_xact_id()::text, true)`;

describe('the history', () => {
  it('records every change made by SQL that is committed', async () => {
    for (const statement of [
      `INSERT INTO inventory_item VALUES (1, 5, 'available'), (2, 6, 'sold')`,
      `UPDATE inventory_item SET quantity = quantity + 1 WHERE pet_id = 1`,
      `UPDATE inventory_item SET quantity = quantity`, // changes nothing
      `UPDATE inventory_item SET pet_id = 3, status = 'pending' WHERE pet_id = 2`,
      `INSERT INTO inventory_item VALUES (1, 0, 'sold') ON CONFLICT (pet_id) DO UPDATE SET status = 'sold'`,
      `DELETE FROM inventory_item WHERE pet_id = 3`,
      `TRUNCATE inventory_item`,
      `BEGIN; INSERT INTO inventory_item VALUES (4, 5, 'available'); ROLLBACK`,
    ]) {
      await store.sql(statement);
    }
    expect(await store.changes()).toEqual([
      '1 > 5 available sql:postgres',
      '1 5 available > 6 available sql:postgres',
      '1 6 available > 6 sold sql:postgres',
      '1 6 sold > sql:postgres',
      '2 > 6 sold sql:postgres',
      '2 6 sold > sql:postgres',
      '3 > 6 pending sql:postgres',
      '3 6 pending > sql:postgres',
    ]);
    expect(await verify()).toEqual(printed('the history of all 3 pets is whole\n'));
  });

  it('names the setting or the role of the session, not the role that it has taken', async () => {
    await store.sql(`BEGIN; SET LOCAL ROLE pg_write_all_data; SET LOCAL "inventory.changed_by" = 'migration 7';
      INSERT INTO inventory_item VALUES (1, 5, 'sold'); COMMIT`);
    await store.sql(`BEGIN; CREATE ROLE taken IN ROLE pg_read_all_data, pg_write_all_data; SET LOCAL ROLE taken;
      UPDATE inventory_item SET quantity = 6; RESET ROLE; DROP ROLE taken; COMMIT`);
    expect(await store.changes()).toEqual(['1 > 5 sold migration 7', '1 5 sold > 6 sold sql:postgres']);
  });

  it('refuses TRUNCATE at REPEATABLE READ, whose snapshot may miss pets, and where row security hides pets', async () => {
    await store.sql(`INSERT INTO inventory_item VALUES (1, 5, 'available')`);
    for (const [begun, error] of [
      [
        'BEGIN ISOLATION LEVEL REPEATABLE READ',
        { message: 'TRUNCATE of inventory_item refused: its history needs READ COMMITTED', code: '55000' },
      ],
      [
        `BEGIN; CREATE ROLE hidden IN ROLE pg_read_all_data, pg_write_all_data; GRANT TRUNCATE ON inventory_item TO hidden;
          ALTER TABLE inventory_item ENABLE ROW LEVEL SECURITY; SET LOCAL ROLE hidden`,
        { code: '42501', routine: 'check_enable_rls' },
      ],
    ] as const) {
      await expect(store.sql(`${begun}; TRUNCATE inventory_item`)).rejects.toMatchObject(error);
      await store.sql('ROLLBACK');
    }
    expect(await store.changes()).toEqual(['1 > 5 available sql:postgres']);
    await store.sql('BEGIN ISOLATION LEVEL READ UNCOMMITTED; TRUNCATE inventory_item; COMMIT'); // PostgreSQL's READ COMMITTED
    expect(await store.changes()).toHaveLength(2);
  });

  it.each([
    'UPDATE stock_change SET quantity_after = 6',
    'DELETE FROM stock_change',
    'TRUNCATE stock_change',
    `INSERT INTO stock_change (pet_id, id, changed_by) SELECT pet_id, id, 'x' FROM stock_change
       ON CONFLICT (pet_id, id) DO UPDATE SET changed_by = 'x'`,
    `MERGE INTO stock_change c USING stock_change d ON c.id = d.id WHEN MATCHED THEN DELETE`,
  ])('refuses %s', async (statement) => {
    await store.sql(`INSERT INTO inventory_item VALUES (1, 5, 'available')`);
    await expect(store.sql(statement)).rejects.toMatchObject({
      message: expect.stringMatching(/^stock_change is append-only: (UPDATE|DELETE|TRUNCATE) refused$/) as string,
      hint: 'Old rows leave by "inventory history prune --before <date>".',
      code: '42501',
    });
    expect(await store.changes()).toEqual(['1 > 5 available sql:postgres']);
  });

  it('keeps marks of unrecorded changes for a day, also while a publication has all tables', async () => {
    await store.sql(`CREATE PUBLICATION everything FOR ALL TABLES;
      INSERT INTO unrecorded_change SELECT n::text::xid8, now() - interval '1 h' * CASE n WHEN 1 THEN 23 ELSE 25 END
        FROM generate_series(1, 12) n;
      INSERT INTO inventory_item VALUES (1, 5, 'sold')`);
    await atTestEnd(() => store.sql('ROLLBACK; DROP PUBLICATION everything; DELETE FROM unrecorded_change'));
    const marksAfterChange = async () => {
      await store.sql(`BEGIN; SET LOCAL lock_timeout = '5s'; SET LOCAL session_replication_role = replica;
        UPDATE inventory_item SET quantity = quantity + 1; COMMIT`);
      const marks = `SELECT changed_in::text::int AS mark FROM unrecorded_change WHERE changed_in < '100' ORDER BY changed_in`;
      return (await store.sql(marks)).map(({ mark }) => mark);
    };
    const another = await store.database.session(`DELETE FROM unrecorded_change WHERE changed_in = '2'`);
    expect(await marksAfterChange()).toEqual([1, 2, 11, 12]); // it looks at the ten oldest, and waits for nobody
    await another.end();
    expect(await marksAfterChange()).toEqual([1]);
  });

  it('can be pruned while a publication has all tables', async () => {
    await store.sql(`CREATE PUBLICATION everything FOR ALL TABLES; INSERT INTO inventory_item VALUES (1, 5, 'sold');
      UPDATE inventory_item SET quantity = 6`);
    await atTestEnd(() => store.sql('DROP PUBLICATION everything'));
    expect((await store.inventory('history', 'prune', '--before', '0s')).stderr).toMatch(/^1 rows /);
    await expect(store.sql('UPDATE inventory_item SET quantity = -1')).rejects.toThrow('inventory_item_quantity_check');
  });
});

describe('inventory history', () => {
  it('prints the newest changes first, of a pet or of all pets, as a table or as JSON', async () => {
    const pet = '-9223372036854775808';
    await store.sql(`INSERT INTO inventory_item VALUES (${pet}, 5, 'available')`);
    for (const quantity of [6, 7]) await store.sql(`UPDATE inventory_item SET quantity = ${quantity}`);
    await store.rewriteHistory(
      `UPDATE stock_change SET changed_at = '2020-01-01Z' WHERE quantity_before IS NULL;
       UPDATE stock_change SET request_id = 'evening-7', reason = 'return', changed_at = now() - interval '1 min' WHERE quantity_after = 7`,
    );
    await store.sql(`INSERT INTO inventory_item VALUES (8, 0, 'sold')`);

    const ofPet = await store.inventory('history', pet, '--since', '1h', '--limit', '2');
    expect(ofPet.stderr).toBe('');
    expect(ofPet.stdout.split('\n').map((line) => line.split(/ {2,}/).slice(3))).toEqual([
      ['before', 'after', 'by', 'request', 'reason'],
      ['6 available', '7 available', 'sql:postgres', 'evening-7', 'return'],
      ['5 available', '6 available', 'sql:postgres', '-', '-'],
      [],
    ]);
    const json = await store.inventory('history', pet, '--json');
    expect(json).toMatchObject({ stdout: expect.stringContaining(`"petId": ${pet},`) as string, stderr: '' });
    expect(JSON.parse(json.stdout)).toMatchObject([
      { quantityAfter: 7, reason: 'return' },
      { quantityAfter: 6, reason: null },
      { quantityAfter: 5, reason: null },
    ]);
    expect(json.stdout).not.toContain('ifMatch');
    expect(await store.inventory('history', '0', '--json')).toEqual(printed('[]\n'));
    for (const [args, stderr] of [
      [['0'], 'no change found\n'],
      [['--request', 'lost'], 'no change found\n'],
      [['--by', 'key:till-3'], 'no change found\n'],
      [['--by', 'till-3'], 'no change found; authors are key:<id or name>, command:<name> and sql:<role>\n'],
    ] as const)
      expect([args, await store.inventory('history', ...args)]).toEqual([args, { ...printed(), stderr }]);
    expect((await store.inventory('history', pet, '--since', '2020-01-01')).stdout).toContain(' absent ');

    const ofAll = await store.inventory('history', '--since', '2020-01-01', '--limit', '1');
    expect(ofAll.stdout).toMatch(
      /^id +pet +when +before +after +by +request +reason\n\d+ +8 +\S+Z +absent +0 sold +sql:postgres +- +-\n$/,
    );
    expect(ofAll.stderr).toBe('there are older changes; --limit shows more of them\n');
  });

  it('prints one line for each change, without control characters of its author', async () => {
    await store.sql(`BEGIN; SET LOCAL "inventory.changed_by" = E'key:x\\r\\n9  9\\x1b[2J\\u202e\\u2028till';
      INSERT INTO inventory_item VALUES (1, 5, 'sold'); COMMIT`);
    const [pruned] = await store.sql('SELECT last_id FROM stock_change_pruned');
    const table = await store.inventory('history');
    const feed = await store.inventory('history', '--after', String(pruned?.['last_id']));
    const line = /^\d+ +1 +\S+Z +absent +5 sold +key:x\ufffd\ufffd9 {2}9\ufffd\[2J\ufffd\ufffdtill +- +-$/;
    expect(table.stdout.split('\n').slice(1)).toEqual([expect.stringMatching(line), '']);
    expect(feed.stdout.split('\n')).toEqual([expect.stringMatching(line), '']);
  });

  describe('in a history of some pieces', () => {
    /** Of an array in JSON, only the quantities after the changes: the numbers of their rows. */
    const rowsOf = async (...args: string[]) => {
      const { stdout, stderr } = await store.inventory('history', '--json', ...args);
      return { rows: (JSON.parse(stdout) as Change[]).map(({ quantityAfter }) => quantityAfter), stderr };
    };
    const write = (rows: number, changedAt = 'now()') =>
      store.sql(`INSERT INTO stock_change (pet_id, quantity_before, quantity_after, status_before, status_after, changed_at, changed_by, request_id)
        SELECT n % 2, n - 1, n, 'sold', 'sold', ${changedAt}, 'key:' || CASE n WHEN 5 THEN 'old' WHEN 15000 THEN 'new' ELSE 'other' END,
               CASE WHEN n IN (5, 15000, 29000) THEN 'PO-4711' END FROM generate_series(1, ${rows}) n`);

    it('finds the changes of a request, and of the keys that an id or a name means', async () => {
      await store.sql(`INSERT INTO api_key (id, name, key_sha256, scopes)
        SELECT id, name, sha256(id::bytea), '{}' FROM (VALUES ('old', 'till-3'), ('new', 'till-3'), ('other', 'till-4')) k (id, name)`);
      await atTestEnd(() => store.sql('DELETE FROM api_key'));
      await write(30_000);
      const older = 'there are older changes; --limit shows more of them\n';
      for (const [options, rows, stderr = ''] of [
        ['--request PO-4711', [29_000, 15_000, 5]],
        ['--request PO-4711 --limit 3', [29_000, 15_000, 5]],
        ['--request PO-4711 --limit 2', [29_000, 15_000], older],
        ['--request PO-4712', []],
        ['1 --request PO-4711', [5]],
        ['--by key:till-3', [15_000, 5]],
        ['--by key:old', [5]],
        ['--by till-3', []],
        ['--by key:till-4 --request PO-4711', [29_000]],
        ['--by key:till-4 --limit 2', [30_000, 29_999], older],
      ] as const)
        expect({ options, ...(await rowsOf(...options.split(' '))) }).toEqual({ options, rows, stderr });
      const table = await store.inventory('history', '--request', 'PO-4711');
      expect(table.stdout.split('\n').map((line) => line.split(/ {2,}/).slice(4))).toEqual([
        ['after', 'by', 'request', 'reason'],
        ['29000 sold', 'key:other', 'PO-4711', '-'],
        ['15000 sold', 'key:new', 'PO-4711', '-'],
        ['5 sold', 'key:old', 'PO-4711', '-'],
        [],
      ]);
    });

    it('ends with a piece that is older than --since by a day, because a transaction may write long after its start', async () => {
      const ages = `WHEN 25000 THEN '1h' WHEN 5 THEN '1h' ELSE CASE WHEN n > 30000 THEN '60h' ELSE '100h' END`;
      await write(40_000, `now() - (CASE n ${ages} END)::interval`);
      expect(await rowsOf('--since', '48h')).toEqual({ rows: [25_000], stderr: '' });
    });
  });

  it.each([[], ['--json']])('--verify %s fails on an empty store', async (...more) => {
    expect(await verify(...more)).toEqual(failed('there is nothing to verify: the stock and its history are empty'));
  });

  it('--verify prints the pets whose changes were not recorded', async () => {
    await store.sql(`INSERT INTO inventory_item SELECT n, 5, 'available' FROM generate_series(1, 6) n`);
    await store.sql(`${RECORDED_ALREADY}; UPDATE inventory_item SET quantity = 6 WHERE pet_id IN (2, 5);
      INSERT INTO inventory_item VALUES (7, 1, 'sold'); DELETE FROM inventory_item WHERE pet_id = 3; COMMIT`);
    await store.sql(`UPDATE inventory_item SET quantity = 9 WHERE pet_id = 5;
      ${RECORDED_ALREADY}; UPDATE inventory_item SET quantity = 5 WHERE pet_id = 5; COMMIT`);
    expect(await verify()).toEqual({
      code: 1,
      stdout: [
        'pet 2: its last change does not end in its present stock',
        'pet 3: its last change does not end in its present stock',
        'pet 5: 1 of its changes do not begin where the one before ended; its last change does not end in its present stock',
        'pet 7: has no history',
        '',
      ].join('\n'),
      stderr: [
        'error: the history of 4 of 7 pets is broken',
        'The stock is as the list shows it. Changes of these pets are missing in the history, or were altered: somebody wrote with',
        'the triggers off, or restored or edited one of the two tables. "inventory history <petId>" shows the changes around it.',
        'New changes are recorded as always. A pet verifies again once it has changed anew and the older changes are pruned.\n',
      ].join('\n'),
    });
    const { code, stdout } = await store.inventory('history', '--verify', '--json');
    expect(code).toBe(1);
    const broken = [{ petId: 2 }, { petId: 3 }, { petId: 5 }, { petId: 7 }];
    expect(JSON.parse(stdout)).toMatchObject({ pets: 7, brokenPets: 4, broken });

    // The advice that it prints: change these pets again, and prune the older changes.
    await store.sql(`INSERT INTO inventory_item VALUES (3, 0, 'sold');
      UPDATE inventory_item SET quantity = quantity + 1 WHERE pet_id IN (2, 5, 7)`);
    expect((await verify()).stdout).toMatch(/^pet 2: 1 of .+\npet 3: 1 of .+\npet 5: 2 of .+\n$/);
    await store.inventory('history', 'prune', '--before', '0s');
    const whole = await store.inventory('history', '--verify', '--json');
    expect([whole.code, JSON.parse(whole.stdout)]).toEqual([0, { pets: 7, brokenPets: 0, broken: [] }]);

    const addSilently = (first: number | string, last: number | string) =>
      store.sql(
        `${RECORDED_ALREADY}; INSERT INTO inventory_item SELECT n, 1, 'sold' FROM generate_series(${first}, ${last}) n; COMMIT`,
      );
    await addSilently('9007199254740993', '9007199254740993');
    expect(await verify()).toMatchObject({ code: 1, stdout: 'pet 9007199254740993: has no history\n' });
    await addSilently(9, 1010);
    expect((await verify()).stdout.match(/^pet .+$/gm)).toHaveLength(20);
    const all = await store.inventory('history', '--verify', '--json');
    expect(JSON.parse(all.stdout)).toMatchObject({ brokenPets: 1003, broken: Array(1000).fill({}) });
  });

  it('--verify has more memory for its sorts, and only in its transaction', async () => {
    const client = await store.database.session();
    const memory = async () => (await client.query<object>('SHOW work_mem')).rows;
    const before = await memory();
    await client.query('BEGIN');
    await verifyHistory(client);
    expect(await memory()).toEqual([{ work_mem: '96MB' }]);
    await client.query('COMMIT');
    expect(await memory()).toEqual(before);
  });

  it('prune deletes old changes but the newest of each pet, and the history still verifies', async () => {
    await store.sql(`INSERT INTO inventory_item
      SELECT n, 0, 'available' FROM unnest('{-9223372036854775808, 1, 2, 3, 4, 5}'::int8[]) n`);
    for (let turn = 1; turn <= 6; turn++) await store.sql(`UPDATE inventory_item SET quantity = ${turn}`);
    // All changes of pets up to 3 are old. The third of pet 4 is new, and the later ones look older, as after a long
    // transaction. The last three of pet 5 are new.
    await store.rewriteHistory(`UPDATE stock_change c SET changed_at = timestamptz '2020-01-01Z'
         - interval '1ms' * (c.pet_id <= 3 OR c.pet_id = 4 AND n <> 3 OR c.pet_id = 5 AND n <= 4)::int
      FROM (SELECT pet_id, id, row_number() OVER (PARTITION BY pet_id ORDER BY id) AS n FROM stock_change) r
     WHERE r.pet_id = c.pet_id AND r.id = c.id`);

    const message = '30 rows older than 2020-01-01T00:00:00.000Z deleted\n';
    expect(await store.inventory('history', 'prune', '--before', '2020-01-01')).toEqual({
      ...printed(),
      stderr: message,
    });
    const left = await store.sql('SELECT count(*)::int AS rows FROM stock_change GROUP BY pet_id ORDER BY pet_id');
    expect(left.map(({ rows }) => rows)).toEqual([1, 1, 1, 1, 5, 3]);
    expect((await verify()).stdout).toBe('the history of all 6 pets is whole\n');
  });

  it('--since and prune count by the clock of the database, not by their own, which is 40 days ahead', async () => {
    await store.sql(`INSERT INTO inventory_item VALUES (1, 1, 'sold'); UPDATE inventory_item SET quantity = 2`);
    const days = (count: number) => count * 86_400_000;
    const run = (...args: string[]) => inventory(store.url, ['history', ...args], '', {}, { clockAheadMs: days(40) });
    expect(JSON.parse((await run('--since', '1h', '--json')).stdout)).toHaveLength(2);
    expect(await run('prune', '--before', '30d')).toEqual({
      ...printed(),
      stderr: expect.stringMatching(/^0 rows older than 20\S+Z deleted\n$/) as string,
    });
    const tomorrow = new Date(Date.now() + days(1)).toISOString();
    for (const args of [
      ['--since', tomorrow],
      ['prune', '--before', tomorrow],
    ]) {
      const { code, stdout, stderr } = await run(...args);
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
      expect(stderr.replace(/20\S+Z\n$/, '…')).toBe(
        `error: ${tomorrow} lies in the future by the database's clock, which says …`,
      );
    }
    expect(await store.changes()).toHaveLength(2);
  });

  it('prune keeps a change with an Idempotency-Key for a day', async () => {
    await store.sql(`INSERT INTO stock_change (pet_id, quantity_before, quantity_after, status_before, status_after, changed_at, changed_by, idempotency_key)
      SELECT pet, n, n + 1, 'sold', 'sold', now() - interval '1 hour' * (CASE n WHEN 1 THEN age ELSE 2 END), 'key:x', CASE n WHEN 1 THEN 'key-' || pet END
        FROM (VALUES (1, 23), (2, 25)) AS pet (pet, age), generate_series(0, 2) n`);
    const { stderr } = await store.inventory('history', 'prune', '--before', '1h');
    expect(stderr).toMatch(/^3 rows /);
    expect(await store.sql('SELECT pet_id, quantity_after FROM stock_change ORDER BY pet_id, id')).toEqual([
      { pet_id: '1', quantity_after: 2 },
      { pet_id: '1', quantity_after: 3 },
      { pet_id: '2', quantity_after: 3 },
    ]);
  });

  it('prune deletes more rows than one batch has, also those of a single pet', async () => {
    await store.sql(`INSERT INTO stock_change (pet_id, quantity_before, quantity_after, status_before, status_after, changed_at, changed_by)
      SELECT pet, n - 1, n, 'sold', 'sold', now() - interval '2 days' * (pet <> 1 OR n > 1)::int, 'x'
        FROM (VALUES (0, 9999), (1, 12000), (2, 12000)) AS pet (pet, rows), generate_series(1, rows) n ORDER BY n, pet`);
    await store.sql(`${RECORDED_ALREADY};
      INSERT INTO inventory_item VALUES (0, 9999, 'sold'), (1, 12000, 'sold'), (2, 12000, 'sold'); COMMIT`);
    const { stderr } = await store.inventory('history', 'prune', '--before', '1d');
    expect(JSON.parse((await store.inventory('history', '--json')).stdout)).toHaveLength(50); // the default
    expect(stderr).toMatch(/^21997 rows /); // the first change of pet 1 is new, and ends a batch, so all of them stay
    expect((await verify()).code).toBe(0);
  });

  it('prune waits for a session that moves rows of the history, but not for an import, and commits each batch', async () => {
    await store.sql(`INSERT INTO stock_change (pet_id, quantity_after, changed_at, changed_by)
      SELECT 1, n, now() - interval '2 days', 'x' FROM generate_series(1, 12000) n`);
    const waits = (event: string) =>
      expect.poll(() =>
        store.sql(`SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = '${event}'`),
      );
    await store.database.session(`SELECT pg_advisory_xact_lock(hashtextextended('inventory import', 0))`);
    const repair = await store.database.session(HISTORY_LOCK);
    const client = await store.database.session();
    const pruned = pruneBefore(client, new Date());
    await waits('advisory').toHaveLength(1);
    const reader = await store.database.session('SELECT FROM stock_change WHERE quantity_after = 11000 FOR UPDATE');
    await repair.end();
    await waits('transactionid').toHaveLength(1);
    expect(await store.sql('SELECT count(*)::int AS left FROM stock_change')).toEqual([{ left: 2_000 }]);
    await reader.end();
    expect(await pruned).toBe(11_999);
    // A pooler may give its session to another.
    const kept = `SELECT current_setting('inventory.history') AS setting, count(*)::int AS locks
      FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'`;
    expect((await client.query(kept)).rows).toEqual([{ setting: '', locks: 0 }]);
  });
});
