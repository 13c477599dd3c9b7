import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openStore, type Store } from './store.ts';

let store: Store;
beforeAll(async () => {
  store = await openStore();
});
afterAll(() => store.close());

beforeEach(async () => {
  await store.sql('TRUNCATE inventory_item');
  await store.sql('ALTER TABLE stock_change DISABLE TRIGGER ALL'); // a test begins without history, which nobody else can
  await store.sql('TRUNCATE stock_change');
  await store.sql('ALTER TABLE stock_change ENABLE TRIGGER ALL');
});

const verify = () => store.inventory('history', '--verify');

describe('the history', () => {
  it('catches every change made in SQL', async () => {
    await store.sql(`INSERT INTO inventory_item VALUES (1, 5, 'available'), (2, 6, 'sold')`);
    await store.sql(`UPDATE inventory_item SET quantity = quantity + 1 WHERE pet_id = 1`);
    await store.sql(`UPDATE inventory_item SET quantity = quantity`); // changes nothing
    await store.sql(`UPDATE inventory_item SET pet_id = 3, status = 'pending' WHERE pet_id = 2`);
    await store.sql(
      `INSERT INTO inventory_item VALUES (1, 0, 'sold') ON CONFLICT (pet_id) DO UPDATE SET status = 'sold'`,
    );
    await store.sql(`DELETE FROM inventory_item WHERE pet_id = 3`);
    await store.sql('TRUNCATE inventory_item');
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
    expect(await verify()).toEqual({ code: 0, stdout: 'the history of all 3 pets is whole\n', stderr: '' });
  });

  it('refuses a TRUNCATE whose snapshot may not show all that goes', async () => {
    await store.sql(`INSERT INTO inventory_item VALUES (1, 5, 'available')`);
    await expect(store.sql('BEGIN ISOLATION LEVEL REPEATABLE READ; TRUNCATE inventory_item')).rejects.toThrow(
      'TRUNCATE of inventory_item refused: its history needs READ COMMITTED',
    );
    await store.sql('ROLLBACK');
    expect(await store.changes()).toEqual(['1 > 5 available sql:postgres']);
  });

  it('goes with the change when that is rolled back', async () => {
    await store.sql(`BEGIN; INSERT INTO inventory_item VALUES (1, 5, 'available'); ROLLBACK`);
    expect(await store.changes()).toEqual([]);
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
    await expect(store.sql(statement)).rejects.toThrow(
      /^stock_change is append-only: (UPDATE|DELETE|TRUNCATE) refused$/,
    );
    expect(await store.changes()).toEqual(['1 > 5 available sql:postgres']);
  });
});

describe('inventory history', () => {
  it('shows the newest changes of a pet first, for people and for programs', async () => {
    await store.sql(`INSERT INTO inventory_item VALUES (-9223372036854775808, 5, 'available')`);
    for (const quantity of [6, 7, 8]) await store.sql(`UPDATE inventory_item SET quantity = ${quantity}`);
    const [table, json, none] = await Promise.all([
      store.inventory('history', '-9223372036854775808', '--since', '1h'),
      store.inventory('history', '-9223372036854775808', '--limit', '2', '--json'),
      store.inventory('history', '6', '--json'),
    ]);
    expect(table.stdout.split('\n').map((line) => line.split(/ {2,}/).slice(3))).toEqual([
      ['before', 'after', 'by', 'request'],
      ['7 available', '8 available', 'sql:postgres', '-'],
      ['6 available', '7 available', 'sql:postgres', '-'],
      ['5 available', '6 available', 'sql:postgres', '-'],
      ['absent', '5 available', 'sql:postgres', '-'],
      [],
    ]);
    expect(json.stdout).toContain('"petId": -9223372036854775808,');
    const changes = JSON.parse(json.stdout) as Record<string, unknown>[];
    expect(changes.map((change) => [change['quantityBefore'], change['quantityAfter']])).toEqual([
      [7, 8],
      [6, 7],
    ]);
    expect(none).toEqual({ code: 0, stdout: '[]\n', stderr: '' });
  });

  it('shows the newest changes of all pets', async () => {
    await store.sql(`INSERT INTO inventory_item VALUES (-9223372036854775808, 5, 'available'), (7, 6, 'sold')`);
    const [table, json, since] = await Promise.all([
      store.inventory('history', '--limit', '1'),
      store.inventory('history', '--json'),
      store.inventory('history', '--since', '2020-01-01', '--limit', '1', '--json'),
    ]);
    expect(table.stdout).toMatch(
      /^id +pet +when +before +after +by +request\n\d+ +7 +\S+Z +absent +6 sold +sql:postgres +-\n$/,
    );
    expect(table.stderr).toBe('there are older changes; --limit shows more of them\n');
    expect(json.stderr).toBe('');
    expect((JSON.parse(json.stdout) as { quantityAfter: number }[]).map((change) => change.quantityAfter)).toEqual([
      6, 5,
    ]);
    expect(json.stdout).toContain('"petId": -9223372036854775808,');
    expect(JSON.parse(since.stdout)).toHaveLength(1);
  });

  it('keeps to a line a change, whatever its author is called', async () => {
    await store.sql(`BEGIN; SET LOCAL "inventory.changed_by" = E'key:x\\r\\n9  9\\x1b[2J\\u202e\\u2028till';
      INSERT INTO inventory_item VALUES (1, 5, 'sold'); COMMIT`);
    const [pruned] = await store.sql<{ id: string }>('SELECT last_id AS id FROM stock_change_pruned');
    const [table, feed] = await Promise.all([
      store.inventory('history'),
      store.inventory('history', '--after', String(pruned?.id)),
    ]);
    const line = /^\d+ +1 +\S+Z +absent +5 sold +key:x\ufffd\ufffd9 {2}9\ufffd\[2J\ufffd\ufffdtill +-$/;
    expect(table.stdout.split('\n').slice(1)).toEqual([expect.stringMatching(line), '']);
    expect(feed.stdout.split('\n')).toEqual([expect.stringMatching(line), '']);
  });

  it('--verify of an empty store says that there is nothing to verify', async () => {
    const stderr = 'error: there is nothing to verify: the stock and its history are empty\n';
    expect(await verify()).toEqual({ code: 1, stdout: '', stderr });
  });

  it('--verify finds changes that escaped, and says of which pets', async () => {
    await store.sql(`INSERT INTO inventory_item SELECT n, 5, 'available' FROM generate_series(1, 6) n`);
    await store.sql(`BEGIN; SELECT set_config('inventory.recorded_in', pg_current_xact_id()::text, true); UPDATE inventory_item SET quantity = 6 WHERE pet_id IN (2, 5);
      INSERT INTO inventory_item VALUES (7, 1, 'sold'); DELETE FROM inventory_item WHERE pet_id = 3; COMMIT`);
    await store.sql(`UPDATE inventory_item SET quantity = 9 WHERE pet_id = 5`);
    const [people, programs] = await Promise.all([verify(), store.inventory('history', '--verify', '--json')]);
    expect(people).toEqual({
      code: 1,
      stdout: [
        'pet 2: its last change does not end in its present stock',
        'pet 3: its last change does not end in its present stock',
        'pet 5: 1 of its changes do not begin where the one before ended',
        'pet 7: has no history',
        '',
      ].join('\n'),
      stderr: 'error: the history of 4 of 7 pets is broken\n',
    });
    expect(programs.code).toBe(1);
    expect(JSON.parse(programs.stdout)).toMatchObject({
      pets: 7,
      brokenPets: 4,
      broken: [{ petId: 2 }, { petId: 3 }, { petId: 5 }, { petId: 7 }],
    });
  });

  it('prune deletes what is old, keeps the newest row of each pet, and leaves a history that verifies', async () => {
    await store.sql(`INSERT INTO inventory_item SELECT n, 0, 'available' FROM generate_series(1, 5) n`);
    for (let turn = 1; turn <= 6; turn++) await store.sql(`UPDATE inventory_item SET quantity = ${turn}`);
    // As time would have it: pets 1 to 3 changed long ago; of pet 4 the third row is new though later ones look older,
    // as those of a long transaction do; of pet 5 the last three are new.
    await store.sql('ALTER TABLE stock_change DISABLE TRIGGER ALL');
    await store.sql(`UPDATE stock_change c SET changed_at = now() - interval '400 days'
      FROM (SELECT pet_id, id, row_number() OVER (PARTITION BY pet_id ORDER BY id) AS n FROM stock_change) r
     WHERE r.pet_id = c.pet_id AND r.id = c.id AND (c.pet_id <= 3 OR c.pet_id = 4 AND n <> 3 OR c.pet_id = 5 AND n <= 4)`);
    await store.sql('ALTER TABLE stock_change ENABLE TRIGGER ALL');

    const pruned = await store.inventory('history', 'prune', '--before', '365d');
    expect(pruned).toMatchObject({ code: 0, stdout: '' });
    expect(pruned.stderr).toMatch(/^24 rows older than \S+ deleted\n$/);
    const left = await store.sql(
      `SELECT pet_id, count(*)::int AS rows FROM stock_change GROUP BY pet_id ORDER BY pet_id`,
    );
    expect(left.map(({ rows }) => rows)).toEqual([1, 1, 1, 5, 3]);
    expect((await verify()).stdout).toBe('the history of all 5 pets is whole\n');
    expect((await store.inventory('history', 'prune', '--before', '2100-01-01')).code).toBe(2);
  });

  it('prune keeps for a day what a key was used for', async () => {
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

  it('prune takes more rows than one batch has, across the chain of a single pet too', async () => {
    await store.sql(`INSERT INTO stock_change (pet_id, quantity_before, quantity_after, status_before, status_after, changed_at, changed_by)
      SELECT pet, n - 1, n, 'sold', 'sold', now() - interval '2 days' * (pet = 1 OR n > 1)::int, 'x'
        FROM generate_series(1, 2) pet, generate_series(1, 12000) n`);
    await store.sql(`BEGIN; SELECT set_config('inventory.recorded_in', pg_current_xact_id()::text, true);
      INSERT INTO inventory_item VALUES (1, 12000, 'sold'), (2, 12000, 'sold'); COMMIT`);
    const { stderr } = await store.inventory('history', 'prune', '--before', '1d');
    expect(stderr).toMatch(/^11999 rows /); // of pet 2 the very first is new, so all stay
    expect((await verify()).code).toBe(0);
  });
});
