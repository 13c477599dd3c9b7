import { describe, expect, it } from 'vitest';
import { ADVICE } from '../../src/commands/import/problems.ts';
import { BIG, csv, edited, importText, SHEET, store, useImportStore } from './import-store.ts';
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

  it.each([
    ['9912140633506426', '9912140633506430'],
    ['9999999999999997', '10000000000000000'],
    ['-9223372036854775807', '-9223372036854775808'],
    ['4611686018427387905', '4611686018427388000'],
  ])('%s is refused as %s, which rounding makes of it', async (petId, rounded) => {
    await store.sql(`DELETE FROM inventory_item; INSERT INTO inventory_item VALUES (${petId}, 5, 'sold')`);
    const message = `line 2: petId ${rounded} may be the rounded id of pet ${petId}, which the store has and the file lacks\nproblems in the file, all together: 1; nothing was written\n${ADVICE.rounded}`;
    await expect(importText(csv(`${rounded},6,sold`))).rejects.toThrow(message);
    await expect(importText(csv(`${rounded},6,sold`, '# end'), { new: 'add', missing: 'remove' })).rejects.toThrow(
      message,
    );
    // The file has both.
    expect((await importText(csv(`${rounded},6,sold`, `${petId},5,sold`), { new: 'add' })).summary).toMatchObject({
      added: 1,
    });
    await store.sql(`DELETE FROM inventory_item WHERE pet_id = ${rounded}`);
    expect((await importText(csv(`${rounded},6,sold`), { new: 'add-as-written' })).summary).toMatchObject({ added: 1 });
  });

  it('needs a status', async () => {
    const sheet = 'petId,quantity\n1,13\n77,1\n# end';
    const message =
      'line 3: pet 77 is new and has no status\nproblems in the file, all together: 1; nothing was written';
    await expect(importText(sheet, { new: 'add' })).rejects.toThrow(message);
    await store.sql('DELETE FROM inventory_item');
    await expect(importText(sheet)).rejects.toThrow('line 2: pet 1 is new and has no status');
  });
});

describe('a row without exported whose pet is in the store', () => {
  const [EXACT, CUT] = ['9007199254740993', '9007199254740990'];
  const counted = (...ids: string[]) => `petId,quantity\n${ids.map((id) => `${id},3\n`).join('')}`;

  it('is refused if its id may be the rounded id of another pet that the file lacks, unless that is said to be right', async () => {
    await store.sql(`INSERT INTO inventory_item VALUES (${EXACT}, 1, 'sold'), (${CUT}, 3, 'sold')`);
    const message = `line 2: petId ${CUT} may be the rounded id of pet ${EXACT}, which the store has and the file lacks\nproblems in the file, all together: 1; nothing was written\n${ADVICE.rounded}`;
    for (const rule of ['refuse', 'add'] as const)
      await expect(importText(counted(CUT, '1'), { new: rule })).rejects.toThrow(message);
    expect((await store.stock()).includes(',3,available')).toBe(false);
    expect((await importText(counted(CUT, '1'), { new: 'add-as-written' })).summary).toMatchObject({ changed: 1 });
  });

  it.each([
    ['the file has that pet, too', [CUT, EXACT]],
    ['another long id of the file is exact', [CUT, BIG]],
  ])('is taken if %s', async (_, ids) => {
    await store.sql(`INSERT INTO inventory_item VALUES (${EXACT}, 1, 'sold'), (${CUT}, 1, 'sold')`);
    expect((await importText(counted(...ids))).summary).toMatchObject({ changed: 2 });
  });

  it('is taken if it says what it was made from', async () => {
    await store.sql(`INSERT INTO inventory_item VALUES (${EXACT}, 1, 'sold'), (${CUT}, 1, 'sold')`);
    const { summary } = await importText(edited(`${CUT},3,sold,${CUT}:sold-1:`));
    expect(summary).toMatchObject({ changed: 1 });
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

describe('two rows for one pet', () => {
  it('are refused, and rounding is named where it may be the cause', async () => {
    const ids = ['1', '1', '9912140633506420', '9912140633506420', BIG, BIG];
    await expect(importText(csv(...ids.map((petId) => `${petId},1,sold`)))).rejects.toThrow(
      [
        'line 3: petId is the same as in line 2',
        'line 5: petId is the same as in line 4',
        'line 7: petId is the same as in line 6',
        'problems in the file, all together: 3; nothing was written',
        ADVICE.digits,
      ].join('\n'),
    );
    const items = JSON.stringify(Array(3).fill({ petId: 1, quantity: 1 }));
    await expect(importText(items, {}, 'stock.json')).rejects.toThrow(
      /^item 2: petId is the same as in item 1\nitem 3/,
    );
  });
});
