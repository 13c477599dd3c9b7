import { execFileSync } from 'node:child_process';
import { symlink, writeFile } from 'node:fs/promises';
import { hostname, userInfo } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { describe, expect, it, onTestFinished } from 'vitest';
import { atTestEnd } from '../support/test-end.ts';
import { CSV_HEADER, exportedCsv, itemText } from '../support/stock.ts';
import { EXTREMES, file, folder, importCsv, importFile, store, useImportStore } from './import-store.ts';
import {
  END_MARK,
  failed,
  IMPORT_CSV,
  outcomeOf,
  printed,
  startInventory,
  untilSessionOf,
} from './inventory-command.ts';

const REFUSED = /^error: (the end mark is missing|line \d+ says that the export failed)/;

const REMOVING = [...IMPORT_CSV, '--missing', 'remove', '--quiet'];

useImportStore(EXTREMES, 'empty');

describe('inventory import', () => {
  it('changes pets that differ, adds new ones, keeps the others, and prints the counts', async () => {
    const [untouched] = await store.sql(`SELECT ctid, xmin FROM inventory_item WHERE pet_id = 7`);
    const path = await file(
      'some.csv',
      `status,petId,quantity\navailable,7,12\nsold,9,0\nsold,8,1\nsold,9007199254740993,4\nsold,9223372036854775807,2147483647\nsold,-9223372036854775808,5\n`,
    );
    const { code, stdout, stderr } = await store.inventory('import', path, '--new', 'add', '--json', '--quiet');
    expect([code, stderr]).toEqual([0, '']);
    const counts = { added: 2, changed: 3, unchanged: 1, removed: 0, skipped: 0, kept: 0, gone: 0, dryRun: false };
    expect(JSON.parse(stdout)).toMatchObject(counts);
    const changed =
      '-9223372036854775808,5,sold\n7,12,available\n8,1,sold\n9,0,sold\n9007199254740993,4,sold\n9223372036854775807,2147483647,sold\n';
    expect(await store.stock()).toBe(changed);
    expect(await store.sql(`SELECT ctid, xmin FROM inventory_item WHERE pet_id = 7`)).toEqual([untouched]);
    const by = `command:import ${userInfo().username}@${hostname()} some.csv`;
    expect(await store.changes()).toEqual([
      `-9223372036854775808 0 sold > 5 sold ${by}`,
      `8 > 1 sold ${by}`,
      `9 > 0 sold ${by}`,
      `9007199254740993 3 pending > 4 sold ${by}`,
      `9223372036854775807 2147483647 available > 2147483647 sold ${by}`,
    ]);
    // Pets that are neighbours in the list are neighbours on the disk.
    const onDisk = await store.sql('SELECT pet_id FROM inventory_item WHERE pet_id IN (8, 9) ORDER BY ctid');
    expect(onDisk).toEqual([{ pet_id: '8' }, { pet_id: '9' }]);
  });

  it('removes pets that the file does not have with --missing remove, but never all pets', async () => {
    expect(await importCsv('', '--missing', 'remove')).toEqual(failed('the file has no pet; it would remove them all'));
    expect(await importFile(await file('empty.csv', CSV_HEADER + END_MARK))).toMatchObject({ removed: 0 });
    await expect(importFile(join(folder, 'empty.csv'), { missing: 'remove', dryRun: true })).rejects.toThrow(
      'it would remove them all',
    );
    const startedAt = performance.now();
    const child = startInventory(store.url, [...IMPORT_CSV, '--missing', 'remove', '--by', 'me']);
    child.stdin.write(CSV_HEADER);
    await untilSessionOf('import', store.database, `query LIKE 'COPY incoming%'`);
    await pause(100); // the transaction is older than its changes
    const [read] = await store.sql('SELECT now() AS at');
    child.stdin.end(`7,12,available\n${END_MARK}`);
    const { stderr } = await outcomeOf(child);
    expect(stderr).toMatch(/^0 added, 0 changed, 1 unchanged, 3 removed in (?!0\.0)\d+\.\d s\n$/m);
    expect(Number.parseFloat(stderr.split(' in ')[1] ?? '')).toBeLessThan(
      (performance.now() - startedAt) / 1_000 + 0.1,
    );
    const times = 'SELECT changed_at > $1 AS is_later FROM stock_change GROUP BY changed_at';
    expect(await store.sql(times, [read?.['at']])).toEqual([{ is_later: true }]);
    expect(await store.stock()).toBe('7,12,available\n');
    expect(await store.changes()).toEqual([
      '-9223372036854775808 0 sold > command:import me',
      '9007199254740993 3 pending > command:import me',
      '9223372036854775807 2147483647 available > command:import me',
    ]);
  });

  it('prints the counts of a dry run, and writes nothing', async () => {
    const pets = '7,13,available\n8,1,sold\n9223372036854775807,2147483647,available';
    const { stdout, stderr } = await importCsv(pets, '--dry-run', '--missing', 'remove', '--json');
    expect(JSON.parse(stdout)).toMatchObject({ added: 1, changed: 1, unchanged: 1, removed: 2, dryRun: true });
    expect(stderr).toContain('\ndry run, nothing was written: 1 added, 1 changed, 1 unchanged, 2 removed');
    expect(await store.stock()).toBe(EXTREMES);
    expect(await store.changes()).toEqual([]);
  });

  it('names twenty pets at most of each outcome, then counts the others, and names all with --json', async () => {
    const added = Array.from({ length: 22 }, (_, at) => at + 10);
    const rows = ['7,13,pending', ...added.map((petId) => `${petId},1,sold`)];
    const { stdout, stderr } = await importCsv(rows.join('\n'), '--json');
    const lines = stderr.split('\n').slice(0, -2); // without the counts
    const changed = ['changed:', '  pet 7: 12 → 13, available → pending'];
    const named = added.slice(0, 20).map((petId) => `  pet ${petId}: 1 sold`);
    expect(lines).toEqual(['added:', ...named, '  and 2 more', ...changed]);
    expect(JSON.parse(stdout)).toMatchObject({ pets: { added: added.map((petId) => ({ petId })) } });
  });

  it('may end without a line break in a file, a link or a pipe', async () => {
    const csv = `${CSV_HEADER}8,1,sold`;
    const pipe = join(folder, 'pipe.csv');
    execFileSync('mkfifo', [pipe]);
    const [summary] = await Promise.all([importFile(pipe), writeFile(pipe, csv)]);
    expect(summary).toMatchObject({ added: 1 });
    const link = join(folder, 'link.csv');
    await symlink(await file('unended.csv', csv), link);
    expect(await importFile(link)).toMatchObject({ unchanged: 1 });
  });

  it('reads every format of an export, also when packed by gzip', async () => {
    await store.sql('ANALYZE inventory_item'); // PostgreSQL then reads so few pets without an index, so the order is that of ORDER BY
    const csv = await store.inventory('export');
    const ndjson = await store.inventory('export', '--format', 'ndjson', '--end-mark');
    const json = await store.inventory('export', '--format', 'json', '--end-mark'); // JSON needs none
    expect(csv).toEqual(printed(exportedCsv(EXTREMES)));
    expect(await store.inventory('export', '--end-mark')).toEqual(printed(exportedCsv(EXTREMES) + END_MARK));
    expect(ndjson.stdout).toMatch(/}\n# end\n$/);
    expect(ndjson.stdout.split('\n')[2]).toBe(itemText('9007199254740993', 3, 'pending'));
    const items = ndjson.stdout.split('\n').slice(0, 4).join('\n,');
    expect(json).toEqual(printed(`[\n ${items}\n]\n`));

    await store.sql('TRUNCATE inventory_item');
    for (const [name, content, message] of [
      ['all.CSV.GZ', gzipSync(csv.stdout + END_MARK), '4 added, 0 changed, 0 unchanged, 0 removed in '],
      ['all.JSONL', ndjson.stdout, '0 added, 0 changed, 4 unchanged, 0 removed in '],
      ['all.json', json.stdout, '0 added, 0 changed, 4 unchanged, 0 removed in '],
    ] as const) {
      const { stderr } = await store.inventory('import', await file(name, content), '--missing', 'remove');
      expect(stderr).toContain(message);
    }
    expect(await store.stock()).toBe(EXTREMES);
  });

  it('removes nothing when the export was cut by PostgreSQL or by a signal', { timeout: 180_000 }, async () => {
    // More than all buffers between PostgreSQL and the reader hold.
    await store.database.fill(
      `SELECT 9000000000000000000 + n, 2147000000 + n, 'available' FROM generate_series(1, 200000) n`,
    );
    const cancelled = 'error: the database cut the statement off: it took too long, or somebody cancelled it\n';
    const locks = `SELECT DISTINCT mode FROM pg_locks JOIN pg_stat_activity USING (pid)
      WHERE relation = 'inventory_item'::regclass AND datname = current_database() AND application_name = 'inventory export'`;
    for (const [cut, outcome] of [
      ['SIGTERM', { code: 143, stderr: 'interrupted: the export is not complete\n' }],
      ['pg_cancel_backend', { code: 1, stdout: expect.stringMatching(/\n# failed\n$/) as string, stderr: cancelled }],
    ] as const) {
      const exporting = startInventory(store.url, ['export', '--end-mark']);
      onTestFinished(() => void exporting.kill('SIGKILL'));
      await untilSessionOf('export', store.database, `wait_event = 'ClientWrite'`); // its output is not read
      expect(await store.sql(locks)).toEqual([{ mode: 'AccessShareLock' }]);
      if (cut === 'SIGTERM') exporting.kill(cut);
      else
        await store.sql(
          `SELECT ${cut}(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'inventory export'`,
        );
      const exported = await outcomeOf(exporting);
      expect({ cut, ...exported }).toMatchObject(outcome);
      const beginning = exported.stdout.slice(0, exported.stdout.indexOf('\n', 20_000) + 1);
      const end = exported.stdout.slice(exported.stdout.lastIndexOf('\n', exported.stdout.length - 20_000) + 1);
      const imported = await store.inventoryReading(beginning + end, ...REMOVING); // all of it would take seconds
      expect({ cut, ...imported }).toMatchObject({ cut, code: 1, stderr: expect.stringMatching(REFUSED) as string });
    }
    expect(await store.sql('SELECT count(*)::int AS pets FROM inventory_item')).toEqual([{ pets: 200_004 }]);
  });

  it('records --by with each change, or the beginning of a long file name', async () => {
    expect((await importCsv('8,1,sold', '--by', 'night\u202eshift')).code).toBe(0);
    expect(await store.changes()).toEqual(['8 > 1 sold command:import night\ufffdshift']);
    await importFile(await file(`${'x'.repeat(240)}.csv`, `${CSV_HEADER}8,2,sold\n`));
    expect((await store.changes())[1]).toMatch(/^8 1 sold > 2 sold command:import .{200}$/); // the file's name is cut off
  });

  it('records --reason with each change', async () => {
    await store.sql(
      `INSERT INTO inventory_item VALUES (1, 1, 'sold'), (2, 2, 'sold'); SET inventory.reason = 'theirs'`,
    );
    await atTestEnd(() => store.sql('RESET inventory.reason'));
    const options = ['--new', 'add', '--missing', 'remove', '--reason', 'new-arrival'];
    expect((await importCsv('1,5,sold\n3,3,sold', ...options)).code).toBe(0);
    expect((await importCsv('1,6,sold')).code).toBe(0);
    const reasons = await store.sql(
      `SELECT pet_id, reason FROM stock_change WHERE changed_by LIKE 'command:%' AND pet_id IN (1, 2, 3)
        ORDER BY quantity_after, id`,
    );
    expect(reasons).toEqual([
      { pet_id: '3', reason: 'new-arrival' },
      { pet_id: '1', reason: 'new-arrival' },
      { pet_id: '1', reason: null },
      { pet_id: '2', reason: 'new-arrival' }, // removed
    ]);
  });
});
