import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ADVICE } from '../../src/commands/import/problems.ts';
import { HAS_POOLER, startPooler } from '../support/pooler.ts';
import { exportedCsv, itemText } from '../support/stock.ts';
import { BIG, csv, edited, folder, importText, SHEET, store, useImportStore } from './import-store.ts';
import { IMPORT_CSV, inventory, shell } from './inventory-command.ts';

useImportStore(SHEET, 'recorded');

describe('a file of export --editable', () => {
  it('leaves rows alone that were not edited, and writes the edited ones', async () => {
    const { stdout } = await store.inventory('export', '--editable');
    const exported = ['exported', '1:available-12:', '2:available-7:', `${BIG}:available-7:`];
    const rows = exportedCsv(SHEET).trimEnd().split('\n');
    expect(stdout).toBe(rows.map((line, at) => `${line},${exported[at]}\n`).join(''));
    await store.sql(
      `UPDATE inventory_item SET quantity = 5 WHERE pet_id = 2; DELETE FROM inventory_item WHERE pet_id = ${BIG}`,
    );
    const { summary, lines } = await importText(stdout.replace('\n1,12,', '\n1,13,'));
    expect(summary).toMatchObject({ added: 0, changed: 1, unchanged: 1, gone: 1 });
    expect(lines).toEqual({ changed: ['pet 1: 12 → 13'], gone: [`pet ${BIG} (line 4)`] });
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
      ['line 2', 'pet 2', 'was available-7 when the file was made, and is available-5 now'],
      ['line 4', `pet ${BIG}`, 'was available-7 when the file was made, and is gone now'],
    ] as const;
    const refusal = await importText(text).catch((error: unknown) => (error as Error).message.split('\n'));
    expect(refusal).toEqual([
      ...stale.map(([line, pet, problem]) => `${line}: ${pet} ${problem}`),
      'problems in the file, all together: 2; nothing was written',
      ADVICE.stale,
    ]);
    expect(await store.stock()).toBe('1,12,available\n2,5,available\n');
    const { code, stdout, stderr } = await store.inventoryReading(text, ...IMPORT_CSV, '--stale', 'skip', '--json');
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^changed:\n {2}pet 1: 12 → 13, available → sold\n0 added, 1 changed, 0 unchanged, 0 removed, 2 skipped in /,
    );
    const skipped = stale.map(([line, pet, problem]) => `${pet} (${line}): ${problem}`);
    expect(stderr).toContain(
      ['\nerror: skipped, because the pets have changed since the file was made:', ...skipped].join('\n  '),
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

  it('is refused a second time, also where it added a pet, or skips those rows', async () => {
    const text = edited('2,9,available,2:available-7:', '77,1,sold,');
    await importText(text, { new: 'add' });
    const message = [
      'line 2: pet 2 was available-7 when the file was made, and is available-9 now',
      'line 3: pet 77 has an empty exported, as a new pet, and is sold-1 now',
    ];
    await expect(importText(text, { new: 'add' })).rejects.toThrow(message.join('\n'));
    expect((await importText(text, { new: 'add', stale: 'skip' })).summary).toMatchObject({ skipped: 2 });
  });

  it('is the same in JSON, where an item that was added has no such member', async () => {
    for (const format of ['ndjson', 'json'] as const) {
      const { stdout } = await store.inventory('export', '--format', format, '--editable');
      expect(stdout).toContain(`${itemText(BIG, 7).slice(0, -1)},"exported":"${BIG}:available-7:"}`);
      expect((await importText(stdout, {}, `stock.${format}`)).summary).toMatchObject({ unchanged: 3, changed: 0 });
    }
    const items = `{"petId":1,"quantity":12,"status":"available","exported":"1:available-12:"}\n{"petId":2,"quantity":1,"status":"sold"}\n`;
    await expect(importText(items, {}, 'stock.ndjson')).rejects.toThrow(
      'line 2: pet 2 has an empty exported, as a new pet, and is available-7 now',
    );
  });

  it.skipIf(!HAS_POOLER)('is exported and imported behind a pooler', async () => {
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
});

describe('the query of stock-files.md', () => {
  /** Imports what the query gives of the changes after one. */
  async function undo(after: string, author: string) {
    const page = readFileSync('docs/stock-files.md', 'utf8');
    const [, query = ''] =
      /## Undo an import\n[^]*?```sh\npsql [^"]*"\$DATABASE_URL" [^"]*"([^]*?)" > undo.csv\n/.exec(page) ?? [];
    const theirs = query.replace('1041', after).replace('command:import ann@office stock.csv', author);
    const rows = await store.sql(theirs);
    const lines = [Object.keys(rows[0] ?? {}), ...rows.map((row) => Object.values(row))].map((fields) => fields.join());
    return importText(`${lines.join('\n')}\n`, { new: 'add', stale: 'skip' });
  }

  it('undoes an import, also a repeated one, and leaves pets alone that have changed since', async () => {
    const by = 'ann@office stock.csv';
    await importText(csv('1,1,sold', '2,2,sold', '77,7,sold', '# end'), { new: 'add', missing: 'remove', by });
    await importText(csv('1,3,pending', '77,8,sold'), { by });
    await store.sql('UPDATE inventory_item SET quantity = 3 WHERE pet_id = 2');
    const { summary, lines } = await undo('0', `command:import ${by}`);
    expect(summary).toMatchObject({ changed: 1, added: 1 });
    expect(lines.skipped).toEqual([
      expect.stringMatching(/^pet 2 .*: was sold-2 when the file was made, and is sold-3 now$/),
    ]);
    expect(await store.stock()).toBe(`1,12,available\n2,3,sold\n77,8,sold\n${BIG},7,available\n`);
  });

  it('undoes an UPDATE without WHERE, and leaves pets alone that have changed since', async () => {
    const { stdout: cursor } = await store.inventory('history', 'cursor');
    await store.sql('UPDATE inventory_item SET quantity = 0');
    await importText('petId,quantity\n2,5\n');
    const [{ role } = {}] = await store.sql<{ role: string }>('SELECT current_user AS role');
    await undo(cursor.trim(), `sql:${role}`);
    expect(await store.stock()).toBe(SHEET.replace('2,7', '2,5'));
  });
});

it.each([
  `UPDATE inventory_item SET quantity = 0, status = 'sold'`,
  'DELETE FROM inventory_item',
  'DELETE FROM inventory_item WHERE pet_id <> 2',
])('the commands of alerts.md put all pets back after %s', async (mistake) => {
  const { stdout: cursor } = await store.inventory('history', 'cursor');
  await store.sql(mistake);
  expect(await store.stock()).not.toBe(SHEET);
  const page = readFileSync('docs/alerts.md', 'utf8');
  const [, commands = ''] = /## UPDATE or DELETE without WHERE\n[^]*?```sh\n([^]*?)```/.exec(page) ?? [];
  await shell(commands.replace('4710', cursor.trim()), store.url, folder);
  expect(await store.stock()).toBe(SHEET);
});
