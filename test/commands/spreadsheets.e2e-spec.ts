import { describe, expect, it } from 'vitest';
import { ADVICE } from '../../src/commands/import/problems.ts';
import { Failure } from '../../src/lib/postgres/index.ts';
import { BIG, csv, importText, SHEET, store, useImportStore } from './import-store.ts';
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
      'Correct the ids, or repeat the import with "--new add" to add new pets',
      '',
    ]);
    expect(await store.stock()).toBe(SHEET);
    await expect(importText(csv(...rows), { dryRun: true })).rejects.toThrow('pet 100 is not in the store');
    expect((await importText(csv(...rows), { new: 'add' })).summary).toMatchObject({ added: 25 });
    await store.sql('DELETE FROM inventory_item');
    expect((await importText(csv(...rows))).summary).toMatchObject({ added: 25 });
  });
});

describe('ids of more than 15 digits', () => {
  const [CUT, NEGATIVE] = ['9912140633506420', '-9223372036854770000'];

  it('are refused, whatever the store has, if all of them have only zeros from the sixteenth digit on', async () => {
    const rows = csv('1,13,available', `${CUT},5,sold`, `${NEGATIVE},5,sold`);
    const message = [
      `line 3: petId ${CUT} may be rounded by a spreadsheet`,
      `line 4: petId ${NEGATIVE} may be rounded by a spreadsheet`,
      'problems in the file, all together: 2; nothing was written',
      ADVICE.rounded,
    ].join('\n');
    const refused = () => expect(importText(rows, { new: 'add' })).rejects.toThrow(new Failure(message));
    await refused();
    await store.sql(`INSERT INTO inventory_item VALUES (${CUT}, 1, 'sold')`);
    await refused();
    expect((await importText(rows, { new: 'add-as-written' })).summary).toMatchObject({ added: 1, changed: 2 });
    await store.sql('DELETE FROM inventory_item');
    await refused();
  });

  it('are taken, new or present, if one of them is exact, so a plain export of both kinds comes back whole', async () => {
    await store.sql(`INSERT INTO inventory_item VALUES (${CUT}, 1, 'sold'), (${NEGATIVE}, 2, 'sold')`);
    const exported = await store.inventory('export');
    expect((await store.inventoryReading(exported.stdout, ...IMPORT_CSV)).stderr).toContain(' 5 unchanged, 0 removed');
    const stock = await store.stock();
    await store.sql('DELETE FROM inventory_item');
    expect((await store.inventoryReading(exported.stdout, ...IMPORT_CSV)).stderr).toContain('5 added, ');
    expect(await store.stock()).toBe(stock);
  });
});

describe('a file without status', () => {
  it('sets quantities of pets that exist, and leaves their status', async () => {
    await store.sql(`UPDATE inventory_item SET status = 'sold' WHERE pet_id = 2`);
    const { summary, lines } = await importText('petId;quantity\r\n1;12\r\n2;9\r\n');
    expect(summary).toMatchObject({ changed: 1, unchanged: 1 });
    expect(lines).toEqual({ changed: ['pet 2: 7 → 9'] });
    expect((await importText('{"petId":2,"quantity":8}\n', {}, 'stock.ndjson')).lines).toEqual({
      changed: ['pet 2: 9 → 8'],
    });
    expect(await store.stock()).toBe(SHEET.replace('2,7,available', '2,8,sold'));
  });
});

it('two rows for one pet are refused', async () => {
  const ids = ['1', '1', BIG, BIG];
  await expect(importText(csv(...ids.map((petId) => `${petId},1,sold`)))).rejects.toThrow(
    [
      'line 3: petId is the same as in line 2',
      'line 5: petId is the same as in line 4',
      'problems in the file, all together: 2; nothing was written',
    ].join('\n'),
  );
  const items = JSON.stringify(Array(3).fill({ petId: 1, quantity: 1 }));
  await expect(importText(items, {}, 'stock.json')).rejects.toThrow(/^item 2: petId is the same as in item 1\nitem 3/);
});
