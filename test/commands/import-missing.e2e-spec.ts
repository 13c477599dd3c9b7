import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ADVICE } from '../../src/commands/import/problems.ts';
import { Failure } from '../../src/lib/postgres/index.ts';
import { BIG, csv, file, folder, importText, SHEET, store, untilLockWait, useImportStore } from './import-store.ts';
import { failed, IMPORT_CSV, shell, untilSessionOf } from './inventory-command.ts';
import { openStore } from './store.ts';

useImportStore(SHEET, 'recorded');

describe('inventory import --missing remove', () => {
  it('keeps what came or changed after the file was made, as the end mark says', async () => {
    const { stdout } = await store.inventory('export', '--end-mark');
    expect(stdout).toMatch(/\n# end \d+ \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\n$/);
    await store.sql(
      `INSERT INTO inventory_item VALUES (88, 1, 'sold'); UPDATE inventory_item SET quantity = 6 WHERE pet_id = 2`,
    );
    const lacking = stdout.replace(/\n2,.*/, '').replace(/\n9912.*/, '');
    const { summary, lines, hasTime } = await importText(lacking, { missing: 'remove' });
    expect([summary, hasTime]).toMatchObject([{ removed: 1, kept: 2, unchanged: 1 }, true]);
    expect(lines).toEqual({ removed: [`pet ${BIG}: 7 available`], kept: ['pet 2: 6 available', 'pet 88: 1 sold'] });
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

  it('removes all that the file lacks after a bare end mark, and says so', async () => {
    const path = await file('stock.csv', csv('1,12,available', '# end'));
    const { code, stderr } = await store.inventory('import', path, '--missing', 'remove');
    expect(code).toBe(0);
    expect(stderr).toContain('the file does not tell when it was made: pets that came later are removed, too\n');
    expect(await store.stock()).toBe('1,12,available\n');
  });

  it.each(['', '# en', '# end', '# end 42 2026-11-25T12:00:00.000'])(
    'is refused, from a file as from a pipe, that ends with %j',
    async (end) => {
      const text = `${csv('1,12,available', '2,7,available')}${end}`;
      const message =
        'the end mark is missing, or not whole: pets that were lost on the way would be removed; nothing was written';
      await expect(importText(text, { missing: 'remove' })).rejects.toThrow(`${message}. ${ADVICE.mark}`);
      const fromPipe = await store.inventoryReading(text, ...IMPORT_CSV, '--missing', 'remove');
      expect(fromPipe).toEqual(failed(`${message}. ${ADVICE.mark}`));
      expect(await store.stock()).toBe(SHEET);
    },
  );

  it.each([
    [
      'was pruned',
      async () => {
        await store.sql('UPDATE inventory_item SET quantity = 6 WHERE pet_id = 1');
        await store.inventory('history', 'prune', '--before', '0s');
      },
    ],
    [
      'was undone by a restore, after which another change got its id',
      async () => {
        await store.rewriteHistory('DELETE FROM stock_change WHERE pet_id = 1');
        await store.sql(`SELECT setval(pg_get_serial_sequence('stock_change', 'id'), max(id)) FROM stock_change`);
      },
    ],
    ['came from another store', () => store.rewriteHistory('TRUNCATE stock_change')],
  ])('is refused before it writes if the change that the end mark names %s', async (_, lose) => {
    const { stdout } = await store.inventory('export', '--end-mark'); // it names the change of pet 1
    await lose();
    await store.sql(`INSERT INTO inventory_item VALUES (88, 1, 'sold')`);
    const stock = await store.stock();
    const lacking = stdout.replace(/\n2,.*/, '');
    const [, id, at] = / (\d+) (\S+)\n$/.exec(stdout) ?? [];
    const message = `the history of this store does not have change ${id} of ${at}, which the end mark names: it was pruned, or a restore has undone it, or it is another store's. ${ADVICE.mark}`;
    for (const dryRun of [true, undefined])
      await expect(importText(lacking, { missing: 'remove', ...(dryRun && { dryRun }) })).rejects.toThrow(
        new Failure(message),
      );
    expect(await store.stock()).toBe(stock);
    const bare = lacking.replace(/# end .*/, '# end');
    expect((await importText(bare, { missing: 'remove' })).summary).toMatchObject({ removed: 2 });
  });

  it('keeps a pet that changed while it waited for its lock', async () => {
    const { stdout } = await store.inventory('export', '--end-mark');
    const writer = await store.database.session('UPDATE inventory_item SET quantity = 6 WHERE pet_id = 2');
    const outcome = importText(stdout.replace(/\n2,.*/, ''), { missing: 'remove' });
    await untilLockWait();
    await writer.query('COMMIT');
    expect((await outcome).summary).toMatchObject({ removed: 0, kept: 1 });
  });

  it('makes another store a mirror by the line of the help, and changes none if the export fails', async () => {
    const mirror = await openStore();
    await mirror.sql(`INSERT INTO inventory_item VALUES (2, 1, 'sold'), (88, 1, 'sold')`);
    const { stdout: help } = await store.inventory('import', '--help');
    const [line = ''] = /^ *\(inventory export .*ssh elsewhere .*$/m.exec(help) ?? [];
    expect(readFileSync('docs/stock-files.md', 'utf8')).toContain(`\n${line.trim()}\n`);
    const script = `ssh() { shift; DATABASE_URL='${mirror.url}' "$@"; }; ${line}`;
    await expect(shell(script, store.url.replace(/\w+$/, 'none'), folder)).rejects.toThrow(
      'says that the export failed',
    );
    expect(await mirror.stock()).toBe('2,1,sold\n88,1,sold\n');
    await shell(script, store.url, folder);
    expect(await mirror.stock()).toBe(SHEET);
    // The id of the only long pet may be rounded.
    await store.sql(`DELETE FROM inventory_item WHERE pet_id = ${BIG};
      INSERT INTO inventory_item VALUES (9912140633506420, 1, 'sold')`);
    await shell(script, store.url, folder);
    expect(await mirror.stock()).toBe(await store.stock());
  });
});

describe('the end mark of an export', () => {
  it('waits for a writer that is still open, so that the export has what the writer commits', async () => {
    const writer = await store.database.session(`INSERT INTO inventory_item VALUES (88, 1, 'sold')`);
    await store.sql('UPDATE inventory_item SET quantity = 6 WHERE pet_id = 2'); // with a higher id
    const exported = store.inventory('export', '--end-mark');
    await untilSessionOf('export', store.database, `query LIKE '%pg_locks%'`);
    await writer.query('COMMIT');
    expect((await exported).stdout).toContain('\n88,1,sold');
  });

  it('is bare if a writer stays open for ten seconds, and the export says why', async () => {
    const writer = await store.database.session(`INSERT INTO inventory_item VALUES (88, 1, 'sold')`);
    await store.sql('UPDATE inventory_item SET quantity = 6 WHERE pet_id = 2'); // with a higher id
    const { code, stdout, stderr } = await store.inventory('export', '--end-mark');
    await writer.query('COMMIT');
    expect([code, stdout.endsWith('\n# end\n')]).toEqual([0, true]);
    expect(stderr).toBe(
      'the end mark does not tell when the export was made: a transaction that writes stock was still open after 10 s\n',
    );
  });
});
