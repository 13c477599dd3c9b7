import { describe, expect, it } from 'vitest';
import { BIG, csv, file, importText, SHEET, store, untilLockWait, useImportStore } from './import-store.ts';
import { IMPORT_CSV, outcomeOf, startInventory, untilSessionOf } from './inventory-command.ts';

useImportStore(SHEET, 'recorded');

describe('inventory import --missing remove', () => {
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
      const path = await file('stock.csv', csv('1,12,available', mark));
      const { code, stderr } = await store.inventory('import', path, '--missing', 'remove');
      expect(code).toBe(0);
      expect(stderr).toContain('the file does not tell when it was made: pets that came later are removed, too\n');
      expect(await store.stock()).toBe('1,12,available\n');
    },
  );

  it('is refused before it writes if the change that the end mark names was pruned', async () => {
    const { stdout } = await store.inventory('export', '--end-mark'); // it names the change of pet 1
    await store.sql(
      `UPDATE inventory_item SET quantity = 6 WHERE pet_id = 1; INSERT INTO inventory_item VALUES (88, 1, 'sold')`,
    );
    await store.inventory('history', 'prune', '--before', '0s');
    const stock = await store.stock();
    const lacking = stdout.replace(/\n2,.*/, '');
    for (const dryRun of [true, undefined])
      await expect(importText(lacking, { missing: 'remove', ...(dryRun && { dryRun }) })).rejects.toThrow(
        /^the history no longer has change \d+, which the end mark names: it was pruned. Export again/,
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
});

describe('the end mark of an export', () => {
  it('waits for a writer that is still open, so that the export has what the writer commits', async () => {
    const writer = await store.database.session(`INSERT INTO inventory_item VALUES (88, 1, 'sold')`);
    await store.sql('UPDATE inventory_item SET quantity = 6 WHERE pet_id = 2'); // with a higher id
    const child = startInventory(store.url, ['export', '--end-mark']);
    const exported = outcomeOf(child);
    await untilSessionOf('export', store.database, `query LIKE '%pg_locks%'`);
    await writer.query('COMMIT');
    expect((await exported).stdout).toContain('\n88,1,sold\n');
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
