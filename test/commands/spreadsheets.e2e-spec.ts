import { describe, expect, it } from 'vitest';
import { csv, edited, importText, SHEET, store, useImportStore } from './import-store.ts';
import { IMPORT_CSV } from './inventory-command.ts';

useImportStore(SHEET, 'recorded');

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
    expect(await store.stock()).toBe(SHEET);
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
    expect(await store.stock()).toBe(SHEET.replace('2,7,available', '2,8,sold'));
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
