import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { type ImportOptions, importStock } from '../../src/commands/import.ts';
import { NOT_AS_ASKED } from '../../src/errors/error-text.ts';
import { hasPooler, startPooler } from '../support/pooler.ts';
import {
  IMPORT_CSV,
  inventory,
  outcomeOf,
  SHELL_COMMAND,
  startInventory,
  untilSessionOf,
} from './inventory-command.ts';
import { openStore, type Store } from './store.ts';

const BIG = '9912140633506421';
const OLD = `1,12,available\n2,7,available\n${BIG},7,available\n`;

let store: Store;
let folder: string;
beforeAll(async () => {
  store = await openStore();
  folder = await mkdtemp(join(tmpdir(), 'inventory-spreadsheets-'));
});
afterAll(() => rm(folder, { recursive: true }));

beforeEach(async () => {
  await store.sql(`SET session_replication_role = replica; TRUNCATE inventory_item; RESET session_replication_role`);
  await store.rewriteHistory('TRUNCATE stock_change');
  await store.sql(
    `INSERT INTO inventory_item VALUES (1, 12, 'available'), (2, 7, 'available'), (${BIG}, 7, 'available')`,
  );
});

/** Imports a text in this process: the first line of the refusal, or the summary. */
async function importText(text: string, options: Partial<ImportOptions> = {}, name = 'stock.csv') {
  const path = join(folder, name);
  await writeFile(path, text);
  process.env['DATABASE_URL'] = store.url;
  return importStock(path, { new: 'refuse', stale: 'refuse', missing: 'keep', quiet: true, ...options });
}

const csv = (...rows: string[]) => ['petId,quantity,status', ...rows, ''].join('\n');
const edited = (...rows: string[]) => ['petId,quantity,status,exported', ...rows, ''].join('\n');

async function untilLockWait(): Promise<void> {
  await untilSessionOf('import', store.database, `wait_event_type = 'Lock'`);
}

describe('a pet that is not in the store', () => {
  it('is refused by name, twenty at most, with the count and what adds it; an empty store takes all', async () => {
    const rows = Array.from({ length: 25 }, (_, at) => `${100 + at},1,sold`);
    const { code, stderr } = await store.inventoryReading(csv('1,13,available', ...rows), ...IMPORT_CSV);
    expect(code).toBe(1);
    expect(stderr.split('\n')).toEqual([
      'error: line 3: pet 100 is not in the store',
      ...Array.from({ length: 19 }, (_, at) => `line ${4 + at}: pet ${101 + at} is not in the store`),
      'problems in the file, all together: 25; nothing was written',
      '25 pets are not in the store: correct the ids, or repeat the import with "--new add" to add new pets',
      '',
    ]);
    expect(await store.stock()).toBe(OLD);
    await expect(importText(csv(...rows), { dryRun: true })).rejects.toThrow('pet 100 is not in the store');
    expect((await importText(csv(...rows), { new: 'add' })).summary).toMatchObject({ added: 25 });
    await store.sql('DELETE FROM inventory_item');
    expect((await importText(csv(...rows))).summary).toMatchObject({ added: 25 });
  });

  it.each([
    ['9912140633506421', '9912140633506420', 'spreadsheets keep 15 digits: format the column as text'],
    ['9912140633506426', '9912140633506430', 'spreadsheets keep 15 digits'],
    ['9912140633506426', '9912140633506420', 'spreadsheets keep 15 digits'],
    ['9999999999999997', '10000000000000000', 'spreadsheets keep 15 digits'],
    ['-9912140633506421', '-9912140633506420', 'spreadsheets keep 15 digits'],
    ['9223372036854775807', '9223372036854770000', 'spreadsheets keep 15 digits'],
    ['-9223372036854775807', '-9223372036854775808', 'JSON.parse and jq 1.6 round'],
    ['4611686018427387905', '4611686018427387904', 'JSON.parse and jq 1.6 round'],
    ['4611686018427387905', '4611686018427388000', 'JSON.parse and jq 1.6 round'],
    ['9007199254740995', '9007199254740996', 'JSON.parse and jq 1.6 round'],
    ['4611686018427387905', '4611686018427387000', 'the program that wrote the file rounds'],
    ['4611686018427387905', '4611686018427387900', 'the program that wrote the file rounds'],
  ])('%s is refused as %s, which rounding makes of it', async (petId, rounded, way) => {
    await store.sql(`DELETE FROM inventory_item; INSERT INTO inventory_item VALUES (${petId}, 5, 'sold')`);
    const told = `line 2: pet ${rounded} is not in the store, but ${petId} is, and the file lacks it: ${way}`;
    await expect(importText(csv(`${rounded},6,sold`))).rejects.toThrow(told);
    await expect(importText(csv(`${rounded},6,sold`), { new: 'add', missing: 'remove' })).rejects.toThrow(told);
    // The file has both.
    expect((await importText(csv(`${rounded},6,sold`, `${petId},5,sold`), { new: 'add' })).summary).toMatchObject({
      added: 1,
    });
    await store.sql(`DELETE FROM inventory_item WHERE pet_id = ${rounded}`);
    expect((await importText(csv(`${rounded},6,sold`), { new: 'add-as-written' })).summary).toMatchObject({ added: 1 });
  });

  it('is added beside neighbours that no rounding makes of it, and JSON is told of its own rounding', async () => {
    for (const petId of ['9912140633506422', '9912140633506423', '9912140633506419', '99121406335064'])
      expect((await importText(csv(`${petId},1,sold`), { new: 'add' })).summary).toMatchObject({ added: 1 });
    const json = `[{"petId":9912140633506420,"quantity":1,"status":"sold"}]`;
    await expect(importText(json, {}, 'stock.json')).rejects.toThrow(
      `item 1: pet 9912140633506420 is not in the store, but 99121`,
    );
    await expect(importText(json, {}, 'stock.json')).rejects.toThrow('JSON.parse and jq 1.6 round');
  });

  it('needs a status', async () => {
    const sheet = 'petId,quantity\n1,13\n77,1\n# end';
    const told = 'line 3: pet 77 is new and has no status\nproblems in the file, all together: 1; nothing was written';
    await expect(importText(sheet, { new: 'add' })).rejects.toThrow(told);
    await store.sql('DELETE FROM inventory_item');
    await expect(importText(sheet)).rejects.toThrow('the store has no pets, and a new pet needs status');
  });
});

describe('a file without status', () => {
  it('sets quantities of pets that exist, and leaves their status', async () => {
    await store.sql(`UPDATE inventory_item SET status = 'sold' WHERE pet_id = 2`);
    const { summary, told } = await importText('petId;quantity\r\n1;12\r\n2;9\r\n');
    expect(summary).toMatchObject({ changed: 1, unchanged: 1 });
    expect(told).toEqual({ changed: ['pet 2: 7 → 9'] });
    expect((await importText('{"petId":2,"quantity":8}\n', {}, 'stock.ndjson')).told).toEqual({
      changed: ['pet 2: 9 → 8'],
    });
    expect(await store.stock()).toBe(OLD.replace('2,7,available', '2,8,sold'));
  });

  it('is told what to do about a last line without its line break', async () => {
    await expect(importText('petId,quantity\n1,1')).rejects.toThrow(
      'in a spreadsheet, write # end into the first cell below the last row, and save the file again',
    );
  });
});

describe('problems of a file', () => {
  it('that every row has are told once, so that they hide no other', async () => {
    const rows = Array.from({ length: 40 }, (_, at) => `${at},${at === 30 ? -5 : 5},gone`);
    const failure = await importText(csv(...rows)).catch((error: unknown) => (error as Error).message.split('\n'));
    expect(failure).toEqual([
      'line 2: status must be one of available, pending, sold, not "gone" (pet 0); the same in every other line',
      'line 32: quantity must be an integer from 0 to 2147483647, not "-5" (pet 30)',
      'problems in the file, all together: 41; nothing was written',
    ]);
  });

  it.each([
    [
      'rounded',
      (at: number) => `9.9${at + 10}E+15,1,sold,`,
      /^line 2: petId "9.910E\+15" is rounded: .*; the same in every/,
    ],
    ['sorted', (at: number) => `${at},1,sold,${at + 1}:sold-1:`, /^line 2: petId is 0, but .*; the same in every/],
  ])('are of one kind although each has its own pets: %s', async (_, row, told) => {
    const rows = Array.from({ length: 25 }, (_, at) => row(at));
    await expect(importText(edited(...rows))).rejects.toThrow(told);
    await expect(importText(edited(...rows, '100,-5,sold,'))).rejects.toThrow('line 27: quantity must be');
  });

  it('are told with one of each kind, although twenty others come first', async () => {
    const rows = Array.from({ length: 40 }, (_, at) => `${at},${at === 35 ? 'x' : 5},${at < 30 ? 'gone' : 'sold'}`);
    await expect(importText(csv(...rows))).rejects.toThrow('\nline 37: quantity must be an integer');
  });
});

describe('a file of export --editable', () => {
  it('leaves rows alone that were not edited, and writes the edited ones', async () => {
    const { stdout } = await store.inventory('export', '--editable');
    const rows = [
      '1,12,available,1:available-12:',
      '2,7,available,2:available-7:',
      `${BIG},7,available,${BIG}:available-7:`,
    ];
    expect(stdout).toBe(edited(...rows));
    await store.sql(
      `UPDATE inventory_item SET quantity = 5 WHERE pet_id = 2; DELETE FROM inventory_item WHERE pet_id = ${BIG}`,
    );
    const { summary, told } = await importText(stdout.replace('\n1,12,', '\n1,13,'));
    expect(summary).toMatchObject({ added: 0, changed: 1, unchanged: 1, gone: 1 });
    expect(told).toEqual({ changed: ['pet 1: 12 → 13'], gone: [`pet ${BIG} (line 4)`] });
    expect(await store.stock()).toBe('1,13,available\n2,5,available\n');
  });

  it('is refused where an edited pet has changed since, or writes the others with --stale skip and exits with 1', async () => {
    await store.sql(
      `UPDATE inventory_item SET quantity = 5 WHERE pet_id = 2; DELETE FROM inventory_item WHERE pet_id = ${BIG}`,
    );
    const text = edited(
      '2,9,available,2:available-7:',
      '1,13,sold,1:available-12:',
      `${BIG},8,sold,${BIG}:available-7:`,
    );
    const stale = [
      'pet 2 (line 2): the file was made from available-7, the stock is available-5',
      `pet ${BIG} (line 4): the file was made from available-7, and the pet is gone`,
    ];
    const refusal = await importText(text).catch((error: unknown) => (error as Error).message.split('\n'));
    expect(refusal).toEqual([
      ...stale,
      'problems in the file, all together: 2; nothing was written',
      '2 pets are no longer as the file was made from: export again and edit that file, or repeat the import with "--stale skip" to write the others',
    ]);
    expect(await store.stock()).toBe('1,12,available\n2,5,available\n');
    const { code, stdout, stderr } = await store.inventoryReading(text, ...IMPORT_CSV, '--stale', 'skip', '--json');
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^changed:\n {2}pet 1: 12 → 13, available → sold\n0 added, 1 changed, 0 unchanged, 0 removed, 2 skipped in /,
    );
    expect(stderr).toContain(
      ['\nerror: skipped, because the pets have changed since the file was made:', ...stale].join('\n  '),
    );
    const change = { quantityBefore: 12, quantityAfter: 13, statusBefore: 'available', statusAfter: 'sold' };
    expect(JSON.parse(stdout)).toMatchObject({
      skipped: 2,
      dryRun: false,
      pets: {
        added: [],
        changed: [{ petId: 1, line: 3, ...change }],
        skipped: [{ petId: 2, exported: 'available-7' }, {}],
      },
    });
    expect(await store.stock()).toBe('1,13,sold\n2,5,available\n');
  });

  it('asks whether it was imported before if the stock already is as it says', async () => {
    const text = edited('2,9,available,2:available-7:', '77,1,sold,');
    await importText(text, { new: 'add' });
    const again = importText(text, { new: 'add' }).catch((error: unknown) =>
      (error as Error).message.split('\n').slice(0, 2),
    );
    expect(await again).toEqual([
      'pet 2 (line 2): the file was made from available-7, the stock is available-9; was this file imported before?',
      'line 3: pet 77 is in the store, but its exported is empty, as of a new pet; was this file imported before?',
    ]);
  });

  it('judges what a writer that it waited for has committed', async () => {
    const writer = await store.database.session('UPDATE inventory_item SET quantity = 6 WHERE pet_id = 2');
    const outcome = importText(edited('2,9,available,2:available-7:')).catch(
      (error: unknown) => (error as Error).message,
    );
    await untilLockWait();
    await writer.query('COMMIT');
    expect(await outcome).toContain('the file was made from available-7, the stock is available-6');
  });

  it('is refused if a writer that it waited for has put the pet of an edited row in anew', async () => {
    const writer = await store.database.session('DELETE FROM inventory_item WHERE pet_id = 2');
    await writer.query(`INSERT INTO inventory_item VALUES (2, 7, 'available')`);
    const outcome = importText(edited('2,9,available,2:available-7:', '77,1,sold,'), { new: 'add' }).catch(
      (error: unknown) => (error as Error).message,
    );
    await untilLockWait();
    await writer.query('COMMIT');
    expect(await outcome).toBe('another transaction was in the way; nothing was written, try again');
    expect(await store.stock()).toBe(OLD);
  });

  it('is refused by a store without pets', async () => {
    await store.sql('DELETE FROM inventory_item');
    await expect(importText(edited('1,9,sold,'))).rejects.toThrow('remove the column "exported" to add them');
  });

  it('is the same in JSON, where an item that was added has no such member', async () => {
    for (const format of ['ndjson', 'json'] as const) {
      const { stdout } = await store.inventory('export', '--format', format, '--editable');
      expect(stdout).toContain(`{"petId":${BIG},"quantity":7,"status":"available","exported":"${BIG}:available-7:"}`);
      expect((await importText(stdout, {}, `stock.${format}`)).summary).toMatchObject({ unchanged: 3, changed: 0 });
    }
    const items = `{"petId":1,"quantity":12,"status":"available","exported":"1:available-12:"}\n{"petId":2,"quantity":1,"status":"sold"}\n`;
    await expect(importText(items, {}, 'stock.ndjson')).rejects.toThrow(
      'line 2: pet 2 is in the store, but its exported',
    );
  });

  it.skipIf(!hasPooler())('is exported and imported behind a pooler', async () => {
    const { url } = await startPooler(store.url, 1);
    const exported = await inventory(url, ['export', '--editable', '--end-mark']);
    expect(exported.stderr).toBe('');
    const text = exported.stdout.replace('\n1,12,', '\n1,13,').replace(/\n2,.*/, '');
    const { code, stdout } = await inventory(url, [...IMPORT_CSV, '--missing', 'remove', '--json', '--quiet'], text);
    expect([code, JSON.parse(stdout)]).toMatchObject([
      0,
      { changed: 1, removed: 1, kept: 0, pets: { removed: [{ petId: 2 }] } },
    ]);
  });

  it('loses no acknowledged update, whatever a spreadsheet makes of it, beside updates', async () => {
    const sheet = fc.record({
      edits: fc.array(fc.record({ at: fc.nat(19), quantity: fc.nat(9) }), { maxLength: 6 }),
      updates: fc.array(fc.record({ at: fc.nat(19), quantity: fc.nat(9) }), { maxLength: 6 }),
      separator: fc.constantFrom(',', ';', '\t'),
      digits: fc.constantFrom('all', 'fifteen', 'exponent'),
      descends: fc.boolean(),
      blankRows: fc.boolean(),
      skips: fc.boolean(),
    });
    const ids = Array.from({ length: 20 }, (_, at) => 9_912_140_633_506_400n + BigInt(at) * 11n);
    const writtenAs = (id: bigint, digits: string) =>
      digits === 'all'
        ? String(id)
        : digits === 'fifteen'
          ? `${String(id).slice(0, 15)}0`
          : Number(id).toExponential(5).replace('e', 'E');
    await fc.assert(
      fc.asyncProperty(sheet, async ({ edits, updates, separator, digits, descends, blankRows, skips }) => {
        await store.sql(`DELETE FROM inventory_item`);
        await store.sql(`INSERT INTO inventory_item SELECT id, 5, 'available' FROM unnest($1::bigint[]) AS id`, [
          ids.map(String),
        ]);
        const row = (id: bigint) => [writtenAs(id, digits), '5', 'available', `${id}:available-5:`];
        const rows = ids.map(row);
        for (const { at, quantity } of edits) (rows[at] ?? [])[1] = String(quantity);
        const lines = rows.map((fields) => fields.join(separator));
        if (descends) lines.reverse();
        if (blankRows) lines.splice(3, 0, separator.repeat(3), '');
        const text = [['petId', 'quantity', 'status', 'exported'].join(separator), ...lines].join('\r\n');
        const update = (id: bigint, quantity: number) =>
          store.sql('UPDATE inventory_item SET quantity = $2 WHERE pet_id = $1', [String(id), quantity]);
        const importing = importText(text, { stale: skips ? 'skip' : 'refuse' }).then(
          ({ summary }) => summary.changed,
          () => 0,
        );
        for (const { at, quantity } of updates) await update(ids[at] ?? 0n, quantity);
        await importing;
        // Each change of the import was made from what the export had: it replaced no other update.
        const lost = await store.sql(
          `SELECT * FROM stock_change WHERE changed_by LIKE 'command:import%' AND quantity_before <> 5`,
        );
        expect(lost).toEqual([]);
        await store.rewriteHistory('TRUNCATE stock_change');
      }),
      { numRuns: 25 },
    );
  });
});

describe('--missing remove', () => {
  it('keeps what came or changed after the file was made, as the end mark tells', async () => {
    const { stdout } = await store.inventory('export', '--end-mark');
    expect(stdout).toMatch(/\n# end \d+ \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\n$/);
    await store.sql(
      `INSERT INTO inventory_item VALUES (88, 1, 'sold'); UPDATE inventory_item SET quantity = 6 WHERE pet_id = 2`,
    );
    const lacking = stdout.replace(/\n2,.*/, '').replace(/\n9912.*/, '');
    const { summary, told, tellsTime } = await importText(lacking, { missing: 'remove' });
    expect([summary, tellsTime]).toMatchObject([{ removed: 1, kept: 2, unchanged: 1 }, true]);
    expect(told).toEqual({ removed: [`pet ${BIG}: 7 available`], kept: ['pet 2: 6 available', 'pet 88: 1 sold'] });
    expect(await store.stock()).toBe('1,12,available\n2,6,available\n88,1,sold\n');
  });

  it('gives programs the state that stays of a pet that is kept, and none of a pet that is gone', async () => {
    const { stdout } = await store.inventory('export', '--editable', '--end-mark');
    await store.sql(
      `UPDATE inventory_item SET quantity = 6 WHERE pet_id = 2; DELETE FROM inventory_item WHERE pet_id = 1`,
    );
    const outcome = await store.inventoryReading(
      stdout.replace(/\n2,.*/, ''),
      ...IMPORT_CSV,
      '--missing',
      'remove',
      '--json',
      '--quiet',
    );
    expect(JSON.parse(outcome.stdout)).toMatchObject({
      pets: { kept: [{ petId: 2, quantityBefore: 6, statusBefore: 'available' }], gone: [{ petId: 1, line: 2 }] },
    });
    expect(outcome.stdout).not.toContain('After');
  });

  it.each(['# end', '# end 1 2026-01-01T00:00:00.000Z', '# end 999999999999999999 2026-01-01T00:00:00.000Z', ''])(
    'removes all that the file lacks, and says so, if the store does not know its time: %j',
    async (mark) => {
      await writeFile(join(folder, 'stock.csv'), csv('1,12,available', mark));
      const { code, stderr } = await store.inventory('import', join(folder, 'stock.csv'), '--missing', 'remove');
      expect(code).toBe(0);
      expect(stderr).toContain('the file does not tell when it was made: pets that came later are removed, too\n');
      expect(await store.stock()).toBe('1,12,available\n');
    },
  );

  it('keeps a pet that changed while it waited for its lock', async () => {
    const { stdout } = await store.inventory('export', '--end-mark');
    const writer = await store.database.session('UPDATE inventory_item SET quantity = 6 WHERE pet_id = 2');
    const outcome = importText(stdout.replace(/\n2,.*/, ''), { missing: 'remove' });
    await untilLockWait();
    await writer.query('COMMIT');
    expect((await outcome).summary).toMatchObject({ removed: 0, kept: 1 });
  });

  it('has a mark that an open writer cannot make untrue', async () => {
    const writer = await store.database.session(`INSERT INTO inventory_item VALUES (88, 1, 'sold')`);
    await store.sql('UPDATE inventory_item SET quantity = 6 WHERE pet_id = 2'); // with a higher id
    const child = startInventory(store.url, ['export', '--end-mark']);
    const exported = outcomeOf(child);
    await untilSessionOf('export', store.database, `query LIKE '%pg_locks%'`);
    await writer.query('COMMIT');
    expect((await exported).stdout).toContain('\n88,1,sold\n');
  });

  it('has a bare mark if the role may not read the history, and the export says why', async () => {
    const role = `reader_${process.pid}`;
    await store.sql(`CREATE ROLE ${role} LOGIN PASSWORD 'secret'; GRANT SELECT ON inventory_item TO ${role}`);
    onTestFinished(() => store.sql(`DROP OWNED BY ${role}; DROP ROLE ${role}`).then(() => undefined));
    const url = Object.assign(new URL(store.url), { username: role, password: 'secret' });
    const { code, stdout, stderr } = await inventory(url.href, ['export', '--end-mark']);
    expect([code, stdout.endsWith('\n# end\n')]).toEqual([0, true]);
    expect(stderr).toMatch(
      /^the end mark does not tell when the export was made: .*permission denied for table stock_change/,
    );
  });
});

describe('a rule of the operator', () => {
  async function trigger(event: string, body: string, table = 'inventory_item'): Promise<void> {
    await store.sql(`CREATE FUNCTION own() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN ${body} END $$;
      CREATE TRIGGER own BEFORE ${event} ON ${table} FOR EACH ROW EXECUTE FUNCTION own()`);
    onTestFinished(() => store.sql('DROP FUNCTION own CASCADE').then(() => undefined));
  }

  it.each([
    ['UPDATE', 'NEW.quantity := least(NEW.quantity, 13); RETURN NEW;', [`line 3: pet 2: ${NOT_AS_ASKED}`]],
    [
      'UPDATE',
      `IF NEW.quantity = 13 THEN NEW.status := 'sold'; END IF; RETURN NEW;`,
      [`line 2: pet 1: ${NOT_AS_ASKED}`],
    ],
    ['UPDATE', 'RETURN NULL;', [`line 2: pet 1: ${NOT_AS_ASKED}`, `line 3: pet 2: ${NOT_AS_ASKED}`]],
    ['INSERT', 'RETURN NULL;', [`line 4: pet 77: ${NOT_AS_ASKED}`]],
    ['INSERT', 'NEW.quantity := 0; RETURN NEW;', [`line 4: pet 77: ${NOT_AS_ASKED}`]],
    ['INSERT', 'NEW.pet_id := 78; RETURN NEW;', [`line 4: pet 77: ${NOT_AS_ASKED}`]],
    ['DELETE', 'RETURN NULL;', [`pet ${BIG}: ${NOT_AS_ASKED}`]],
  ])(
    'that changes rows or keeps them back is told by place, and nothing is written: %s %s',
    async (event, body, told) => {
      await trigger(event, body);
      const before = await store.changes();
      const text = csv('1,13,available', '2,14,available', '77,3,sold');
      const refusal = await importText(text, { new: 'add', missing: 'remove' }).catch(
        (error: unknown) => (error as Error).message,
      );
      const count = `pets that a trigger concerns, all together: ${told.length}; nothing was written`;
      expect(refusal).toBe([...told, count].join('\n'));
      expect([await store.stock(), await store.changes()]).toEqual([OLD, before]);
    },
  );

  it.each(['RETURN NULL;', 'NEW.quantity_after := 0; RETURN NEW;'])(
    'that changes rows of the history or keeps them back is told, and nothing is written: %s',
    async (body) => {
      const before = await store.changes();
      await trigger('INSERT', body, 'stock_change');
      const refusal = importText(csv('1,13,available'));
      await expect(refusal).rejects.toThrow(`line 2: pet 1: ${NOT_AS_ASKED}`);
      expect([await store.stock(), await store.changes()]).toEqual([OLD, before]);
    },
  );

  it('that a trigger need not change or keep back does not matter', async () => {
    await trigger('UPDATE', 'RETURN NEW;');
    expect((await importText(csv('1,13,available'))).summary).toMatchObject({ changed: 1 });
  });

  it.each(['UPDATE', 'INSERT', 'DELETE'])(
    'that is a DO INSTEAD on %s is named, and nothing is written',
    async (event) => {
      await store.sql(`CREATE RULE "their rule" AS ON ${event} TO inventory_item DO INSTEAD NOTHING`);
      onTestFinished(() => store.sql('DROP RULE "their rule" ON inventory_item').then(() => undefined));
      const told = 'no import is possible with the rule "their rule" on inventory_item; drop it (DROP RULE)';
      for (const dryRun of [true, undefined])
        await expect(importText(csv('1,13,available'), dryRun ? { dryRun } : {})).rejects.toThrow(told);
    },
  );
});

it('the recipe of operations.md undoes an import, and leaves pets alone that have changed since', async () => {
  const { stdout: cursor } = await store.inventory('history', 'cursor');
  const bad = csv('1,1,sold', '2,2,sold', '77,7,sold');
  await importText(bad, { new: 'add', missing: 'remove', by: 'ann@office stock.csv' });
  await store.sql('UPDATE inventory_item SET quantity = 3 WHERE pet_id = 2');
  const operations = readFileSync('docs/operations.md', 'utf8');
  const [, recipe = ''] = /### Undo an import\n[^]*?```sh\n([^]*?)```/.exec(operations) ?? [];
  const script = recipe
    .replace(/^AFTER=\d+/m, `AFTER=${cursor.trim()}`)
    .replace(/^BY=.*$/m, `BY='ann@office stock.csv'`);
  const run = () =>
    execFileSync('sh', ['-c', `inventory() { ${SHELL_COMMAND} "$@"; }\n${script}`], {
      cwd: folder,
      env: { ...process.env, DATABASE_URL: store.url },
      encoding: 'utf8',
      stdio: 'pipe',
    });
  expect(run).toThrow('pet 2 (line 2): the file was made from sold-2, the stock is sold-3');
  expect(await store.stock()).toBe(`1,12,available\n2,3,sold\n77,7,sold\n${BIG},7,available\n`);
});
