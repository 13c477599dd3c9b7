import { expect, it } from 'vitest';
import { TcpProxy } from '../support/tcp-proxy.ts';
import type { ImportOptions } from '../../src/commands/import.ts';
import { ADVICE } from '../../src/commands/import/problems.ts';
import { BIG, csv, edited, importText, SHEET, store, untilLockWait, useImportStore } from './import-store.ts';
import { IMPORT_CSV, inventory } from './inventory-command.ts';

useImportStore(SHEET, 'recorded');

type Kind = keyof typeof ADVICE;

/** Imports a text, which is refused with the advice of this kind. */
async function refused(kind: Kind, text: string, options: Partial<ImportOptions> = {}, name?: string): Promise<void> {
  const stock = await store.stock();
  await expect(importText(text, options, name)).rejects.toThrow(ADVICE[kind]);
  expect(await store.stock()).toBe(stock);
}

/** Imports a text, as the advice says. The stock then differs from {@link SHEET} in this. */
async function taken(text: string, from: string, to: string, options: Partial<ImportOptions> = {}, name?: string) {
  await importText(text, options, name);
  expect(await store.stock()).toBe(SHEET.replace(from, to));
  await store.sql('DELETE FROM inventory_item');
  await importText(csv(SHEET.trimEnd()));
}

const exported = async (...options: string[]) => (await store.inventory('export', ...options)).stdout;
const REMOVE = { missing: 'remove' } as const;
const ADD = { new: 'add' } as const;

/** A clerk who does what each sentence says, in each of the ways that it gives. */
const TRIALS: Readonly<Record<Kind, () => Promise<void>>> = {
  async format() {
    const text = 'petId;quantity\n1;13\n';
    await refused('format', text, {}, 'stock.csv.gz');
    await refused('format', `Stock of May;\n${text}`);
    await taken(text, '1,12', '1,13');
  },
  async long() {
    const item = '{"petId":1,"quantity":13}';
    await refused('long', `[${' '.repeat(100_000_000)}${item}]`, {}, 'stock.json');
    await taken(`${item}\n`, '1,12', '1,13', {}, 'stock.ndjson');
    await taken(await exported('--format', 'ndjson'), '', '', {}, 'stock.ndjson');
  },
  async broken() {
    await refused('broken', csv('1,13,available', '# failed'));
    await refused('broken', '[{"petId":1,"quantity":13},{"pet', {}, 'stock.json');
    await refused('broken', '[{"petId":1,"petId":2,"quantity":13}]', {}, 'stock.json');
    await taken((await exported()).replace('1,12', '1,13'), '1,12', '1,13');
  },
  async busy() {
    const text = edited('2,9,available,2:available-7:');
    const writer = await store.database.session('DELETE FROM inventory_item WHERE pet_id = 2');
    await writer.query(`INSERT INTO inventory_item VALUES (2, 7, 'available')`);
    const refusal = expect(importText(text)).rejects.toThrow(ADVICE.busy);
    await untilLockWait();
    await writer.query('COMMIT');
    await refusal;
    await taken(text, '2,7', '2,9');
  },
  async commit() {
    const proxy = new TcpProxy(store.url);
    const url = await proxy.listen();
    proxy.cutBeforeAnswer(1);
    const { stderr } = await inventory(url, IMPORT_CSV, csv('1,13,available'));
    expect(stderr).toContain(ADVICE.commit);
    const { stdout } = await store.inventory('history', '1', '--json');
    expect(JSON.parse(stdout)).toMatchObject([{ quantityBefore: 12, quantityAfter: 13 }, { quantityAfter: 12 }]);
    expect(await store.stock()).toBe(SHEET.replace('1,12', '1,13'));
  },
  async mark() {
    const lacking = (text: string) => text.replace(/\n2,.*/, '');
    const text = lacking(await exported('--editable', '--end-mark'));
    await store.sql(`INSERT INTO inventory_item VALUES (0, 1, 'sold')`);
    await refused('mark', text.replace(/# end.*\n/, ''), REMOVE);
    await refused('mark', text.replace(/# end \d+/, '# end 1'), REMOVE);
    for (const bare of ['# end\n', '# end,,'])
      // a spreadsheet may write no line break
      await taken(text.replace(/# end.*\n/, bare), '2,7,available\n', '', REMOVE);
    const again = lacking(await exported('--editable', '--end-mark'));
    await store.sql(`INSERT INTO inventory_item VALUES (0, 1, 'sold')`);
    await taken(again, SHEET, `0,1,sold\n${lacking(`\n${SHEET}`).trimStart()}`, REMOVE);
  },
  async store() {
    const rounded = (await exported('--editable')).replace(`\n${BIG}`, '\n9.91214063350642E+15');
    const text = await exported();
    await store.sql('DELETE FROM inventory_item');
    await refused('store', rounded);
    await taken(text, '', '');
  },
  async cut() {
    await refused('cut', 'petId,quantity\n1,12\n2,13');
    for (const mark of ['# end', '# end,', '# end\n'])
      await taken(`petId,quantity\n1,12\n2,13\n${mark}`, '2,7', '2,13');
    const { code } = await store.inventoryReading('petId,quantity\n1,13\n# end,', ...IMPORT_CSV);
    expect([code, await store.stock()]).toEqual([0, SHEET.replace('1,12', '1,13')]);
  },
  async after() {
    const [header = '', ...rows] = (await exported('--end-mark')).trimEnd().split('\n');
    const [mark = '', ...pets] = rows.toReversed().filter((row) => !row.startsWith('2,'));
    await refused('after', [header, mark, ...pets, ''].join('\n'), REMOVE);
    await refused('after', [header, ...pets, mark, '# end', ''].join('\n'), REMOVE);
    await taken([header, ...pets, mark, ''].join('\n'), '2,7,available\n', '', REMOVE);
  },
  async digits() {
    await refused('digits', csv('9.91214063350642E+15,8,available'));
    await taken(csv(`${BIG},8,available`), `${BIG},7`, `${BIG},8`);
    const text = (await exported('--editable')).replace(`\n${BIG},7`, '\n9.91214063350642E+15,8');
    await taken(text, `${BIG},7`, `${BIG},8`);
  },
  async rounded() {
    await refused('rounded', csv('9912140633506420,8,available'), ADD);
    await taken(csv(`${BIG},8,available`), `${BIG},7`, `${BIG},8`, ADD);
    const text = (await exported('--editable')).replace(`\n${BIG},7`, '\n9912140633506420,8');
    await taken(text, `${BIG},7`, `${BIG},8`);
    const asWritten = { new: 'add-as-written' } as const;
    await taken(csv('9912140633506420,8,sold'), BIG, `9912140633506420,8,sold\n${BIG}`, asWritten);
  },
  async unknown() {
    await refused('unknown', csv('11,13,available'));
    await taken(csv('1,13,available'), '1,12', '1,13');
    await taken(csv('11,13,available'), BIG, `11,13,available\n${BIG}`, ADD);
  },
  async incomplete() {
    await refused('incomplete', 'petId,quantity\n1,13\n11,5\n', ADD);
    const whole = '1,13,available\n2,7,available\n11,5,sold\n';
    await taken(csv('1,13,available', '11,5,sold'), '1,12,available\n2,7,available\n', whole, ADD);
  },
  async exported() {
    await refused('exported', edited('2,13,available,1:available-12:', '1,7,available,2:available-7:'));
    await taken((await exported('--editable')).replace('\n1,12', '\n1,13'), '1,12', '1,13');
    await refused('exported', edited('11,5,sold,1:available-12:'), ADD);
    await refused('exported', edited('11,5,sold,sold-5'), ADD);
    await taken(edited('11,5,sold,'), BIG, `11,5,sold\n${BIG}`, ADD);
  },
  async stale() {
    const edit = (text: string) => text.replace('\n1,12', '\n1,13').replace(/\n2,\d+/, '\n2,9');
    const text = edit(await exported('--editable'));
    const change = () => store.sql('UPDATE inventory_item SET quantity = 6 WHERE pet_id = 2');
    await change();
    await refused('stale', text);
    await taken(text, '1,12,available\n2,7', '1,13,available\n2,6', { stale: 'skip' });
    await change();
    await taken(edit(await exported('--editable')), '1,12,available\n2,7', '1,13,available\n2,9');
    await importText(text);
    await refused('stale', text);
    expect(await store.stock()).toBe(SHEET.replace('1,12,available\n2,7', '1,13,available\n2,9'));
  },
};

it.each(Object.keys(ADVICE) as Kind[])(
  'an import that is refused says how to get the stock that was wanted: %s',
  (kind) => TRIALS[kind](),
);
