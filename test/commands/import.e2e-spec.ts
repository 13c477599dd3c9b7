import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtemp, open, rm, symlink, writeFile } from 'node:fs/promises';
import { hostname, tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { Client } from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { makeKey } from '../../src/auth/api-key.format.ts';
import { type ImportOptions, importStock } from '../../src/commands/import.ts';
import { awaitTurn, loadRows, planMerge, writePlanned } from '../../src/commands/stock-merge.ts';
import { ITEM } from '../../src/inventory/stock-item.ts';
import { TcpProxy } from '../../faults/tcp-proxy.ts';
import {
  CSV_HEADER,
  END_MARK,
  failed,
  IMPORT_CSV,
  inventory,
  outcomeOf,
  printed,
  sessionsOf,
  SHELL_COMMAND,
  startInventory,
  untilSessionOf,
} from './inventory-command.ts';
import { openStore, type Store } from './store.ts';

const OLD =
  '-9223372036854775808,0,sold\n7,12,available\n9007199254740993,3,pending\n9223372036854775807,2147483647,available\n';

const MISSING = `the end mark is missing: pets that were lost on the way would be removed; nothing was written
Write the data with "inventory export --end-mark", or add "# end" as its last line once it is complete`;

const RULES = { new: 'add', stale: 'refuse', missing: 'keep' } as const;

const REMOVING = [...IMPORT_CSV, '--missing', 'remove', '--quiet'];

let store: Store;
let folder: string;
beforeAll(async () => {
  store = await openStore();
  folder = await mkdtemp(join(tmpdir(), 'inventory-import-'));
});
afterAll(() => rm(folder, { recursive: true }));

beforeEach(async () => {
  await store.sql(`SET session_replication_role = replica; -- without a history
    TRUNCATE inventory_item; RESET session_replication_role;
    INSERT INTO inventory_item VALUES (9223372036854775807, 2147483647, 'available'), (7, 12, 'available'),
      (9007199254740993, 3, 'pending'), (-9223372036854775808, 0, 'sold')`);
  await store.rewriteHistory('TRUNCATE stock_change');
});

async function file(name: string, content: string | Buffer): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, content);
  return path;
}

/** Imports in this process; a process for each file would take most of the tests' time. */
async function importFile(path: string, options: Partial<ImportOptions> = {}) {
  process.env['DATABASE_URL'] = store.url;
  const { summary } = await importStock(path, { ...RULES, missing: 'remove', quiet: true, ...options });
  const { added, changed, unchanged, removed } = summary;
  return { added, changed, unchanged, removed };
}

function importCsv(pets: string, ...options: string[]) {
  return store.inventoryReading(`${CSV_HEADER}${pets}\n${END_MARK}`, ...IMPORT_CSV, '--new', 'add', ...options);
}

describe('inventory import', () => {
  it('changes pets that differ, adds new ones, keeps the others, and prints the counts', async () => {
    const [untouched] = await store.sql(`SELECT ctid, xmin FROM inventory_item WHERE pet_id = 7`);
    const path = await file('some.csv', `status,petId,quantity\navailable,7,12\nsold,8,1\nsold,9007199254740993,4\n`);
    const { code, stdout, stderr } = await store.inventory('import', path, '--new', 'add', '--json', '--quiet');
    expect([code, stderr]).toEqual([0, '']);
    const counts = { added: 1, changed: 1, unchanged: 1, removed: 0, skipped: 0, kept: 0, gone: 0, dryRun: false };
    expect(JSON.parse(stdout)).toMatchObject(counts);
    const added = OLD.replace('7,12,available\n', '7,12,available\n8,1,sold\n');
    expect(await store.stock()).toBe(added.replace('9007199254740993,3,pending', '9007199254740993,4,sold'));
    expect(await store.sql(`SELECT ctid, xmin FROM inventory_item WHERE pet_id = 7`)).toEqual([untouched]);
    const by = `command:import ${userInfo().username}@${hostname()} some.csv`;
    expect(await store.changes()).toEqual([`8 > 1 sold ${by}`, `9007199254740993 3 pending > 4 sold ${by}`]);
  });

  it('removes pets that the file does not have with --missing remove, but never all pets', async () => {
    expect(await importCsv('', '--missing', 'remove')).toEqual(failed('the file has no pet; it would remove them all'));
    expect(await importFile(await file('empty.csv', CSV_HEADER), { missing: 'keep' })).toMatchObject({ removed: 0 });
    await expect(importFile(join(folder, 'empty.csv'), { dryRun: true })).rejects.toThrow('it would remove them all');
    const startedAt = performance.now();
    const child = startInventory(store.url, [...IMPORT_CSV, '--missing', 'remove', '--by', 'me']);
    child.stdin.write(CSV_HEADER);
    await untilSessionOf('import', store.database, `query LIKE 'COPY incoming%'`);
    await pause(100);
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
    expect(await store.stock()).toBe(OLD);
    expect(await store.changes()).toEqual([]);
  });

  it('changes a pet whose quantity, status or both differ, and counts so', async () => {
    const path = await file('each.csv', `${CSV_HEADER}10,0,sold\n7,13,available\n9007199254740993,3,sold\n9,0,sold\n`);
    const counts = { added: 2, changed: 2, unchanged: 0, removed: 0 };
    expect(await importFile(path, { missing: 'keep', dryRun: true })).toEqual(counts);
    expect(await importFile(path, { dryRun: true })).toEqual({ ...counts, removed: 2 });
    expect(await importFile(path, { missing: 'keep', by: 'x' })).toEqual(counts);
    expect(await store.changes()).toEqual([
      '7 12 available > 13 available command:import x',
      '9 > 0 sold command:import x',
      '10 > 0 sold command:import x',
      '9007199254740993 3 pending > 3 sold command:import x',
    ]);
    const onDisk = await store.sql('SELECT pet_id FROM inventory_item WHERE pet_id IN (9, 10) ORDER BY ctid');
    // Pets that are neighbours in the list are neighbours on the disk.
    expect(onDisk).toEqual([{ pet_id: '9' }, { pet_id: '10' }]);
  });

  it('may end without a line break in a file, but not in a pipe', async () => {
    const csv = `${CSV_HEADER}8,1,sold`;
    await file('-', 'not what is read');
    const options = {
      shell: true,
      cwd: folder,
      env: { DATABASE_URL: store.url },
      input: csv,
      encoding: 'utf8',
    } as const;
    const inPipe = spawnSync(`${SHELL_COMMAND} ${IMPORT_CSV.join(' ')}`, options);
    expect(inPipe.stderr).toContain('error: line 2: ends without a line break, so the rest of it may be missing\n');
    const pipe = join(folder, 'pipe.csv');
    execFileSync('mkfifo', [pipe]);
    await Promise.all([
      expect(importFile(pipe, { missing: 'keep' })).rejects.toThrow('line 2: ends without a line break'),
      writeFile(pipe, csv),
    ]);
    const link = join(folder, 'link.csv');
    await symlink(await file('unended.csv', csv), link);
    expect(await importFile(link, { missing: 'keep' })).toMatchObject({ added: 1 });
  });

  it('reads every format of an export, also when packed by gzip', async () => {
    await store.sql('ANALYZE inventory_item'); // PostgreSQL then reads so few pets without an index, so the order is that of ORDER BY
    const csv = await store.inventory('export');
    const ndjson = await store.inventory('export', '--format', 'ndjson', '--end-mark');
    const json = await store.inventory('export', '--format', 'json', '--end-mark'); // JSON needs none
    expect(csv).toEqual(printed(CSV_HEADER + OLD));
    expect(await store.inventory('export', '--end-mark')).toEqual(printed(CSV_HEADER + OLD + END_MARK));
    expect(ndjson.stdout).toMatch(/}\n# end\n$/);
    expect(ndjson.stdout.split('\n')[2]).toBe('{"petId":9007199254740993,"quantity":3,"status":"pending"}');
    const items = ndjson.stdout.split('\n').slice(0, 4).join('\n,');
    expect(json).toEqual(printed(`[\n ${items}\n]\n`));

    await store.sql('TRUNCATE inventory_item');
    for (const [name, content, told] of [
      ['all.CSV.GZ', gzipSync(csv.stdout), '4 added, 0 changed, 0 unchanged, 0 removed in '],
      ['all.JSONL', ndjson.stdout, '0 added, 0 changed, 4 unchanged, 0 removed in '],
      ['all.json', json.stdout, '0 added, 0 changed, 4 unchanged, 0 removed in '],
    ] as const) {
      const { stderr } = await store.inventory('import', await file(name, content), '--missing', 'remove');
      expect(stderr).toContain(told);
    }
    const misnamed = await file('ndjson.csv', ndjson.stdout);
    expect(await importFile(misnamed, { format: 'ndjson' })).toMatchObject({ unchanged: 4 });
    expect(await store.stock()).toBe(OLD);
  });

  it('removes nothing when the export was cut by PostgreSQL or by a signal', { timeout: 180_000 }, async () => {
    // More than all buffers between PostgreSQL and the reader hold.
    await store.sql(`SET session_replication_role = replica; -- faster: without a history
      INSERT INTO inventory_item SELECT 9000000000000000000 + n, 2147000000 + n, 'available' FROM generate_series(1, 400000) n;
      RESET session_replication_role`);
    const marked = { code: 1, stdout: expect.stringMatching(/\n# failed\n$/) as string };
    const cancelled = 'error: the database cut the statement off: it took too long, or somebody cancelled it\n';
    const locks = `SELECT DISTINCT mode FROM pg_locks JOIN pg_stat_activity USING (pid)
      WHERE relation = 'inventory_item'::regclass AND datname = current_database() AND application_name = 'inventory export'`;
    for (const [cut, outcome] of [
      ['SIGTERM', { code: 143, stderr: 'interrupted: the export is not complete\n' }],
      ['pg_terminate_backend', marked],
      ['pg_cancel_backend', { ...marked, stderr: cancelled }],
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
      const imported = await store.inventoryReading(exported.stdout, ...REMOVING);
      expect({ cut, ...imported }).toMatchObject({ cut, code: 1, stderr: expect.stringContaining(MISSING) as string });
    }
    expect(await store.sql('SELECT count(*)::int AS pets FROM inventory_item')).toEqual([{ pets: 400_004 }]);
  });

  it('prints in one line why a file cannot be read', async () => {
    const csv = CSV_HEADER + OLD;
    for (const [name, content, reason] of [
      ['cut.csv.gz', gzipSync(csv).subarray(0, 40), 'it is damaged or not whole; copy it again'],
      ['plain.csv.gz', csv, 'it is not packed by gzip, although its name ends in .gz; take .gz away from its name'],
    ] as const) {
      const path = await file(name, content);
      await expect(importFile(path)).rejects.toThrow(new Error(`${path} cannot be read: ${reason}`));
    }
    const loop = join(folder, 'loop.csv');
    await symlink(loop, loop);
    await expect(importFile(loop)).rejects.toThrow(`${loop} cannot be read: ELOOP: too many symbolic links`);
    for (const none of [join(folder, 'none.csv'), join(folder, 'none.csv.gz')])
      await expect(importFile(none)).rejects.toThrow(`${none} cannot be read: ENOENT: no such file or directory`);
    const page =
      'standard input cannot be read: it is a web page, perhaps one to sign in; download the stock again as CSV';
    expect(await store.inventoryReading('<html>', ...IMPORT_CSV)).toEqual(failed(page));
    const nameless = 'the name does not tell the format; add --format csv, --format ndjson, --format json';
    expect(await store.inventory('import', 'stock.xlsx')).toEqual(failed(nameless));
    expect(await store.stock()).toBe(OLD);
  });

  it('prints the first 20 problems with their lines, and the count of all problems', async () => {
    const lines = Array.from({ length: 60 }, (_, at) => (at % 2 ? `${at},-1,gone` : `${at % 8},1,sold`));
    const { code, stderr } = await importCsv(lines.join('\n'));
    const told = stderr.split('\n');
    expect(code).toBe(1);
    expect(told.slice(0, 3)).toEqual([
      'error: line 3: quantity must be an integer from 0 to 2147483647, not "-1" (pet 1)',
      `line 3: status must be ${ITEM.status.rule}, not "gone" (pet 1)`,
      'line 5: quantity must be an integer from 0 to 2147483647, not "-1" (pet 3)',
    ]);
    expect(told).toContain('line 10: petId is the same as in line 2');
    expect(told.slice(20)).toEqual(['problems in the file, all together: 86; nothing was written', '']);
    expect(await store.stock()).toBe(OLD);
    const thrice = Array(3).fill({ petId: 1, quantity: -1, status: 'sold' });
    const array = importFile(await file('thrice.json', JSON.stringify(thrice)));
    await expect(array).rejects.toThrow(
      /^item 1: q.+\nitem 2: petId .+ as in item 1\nitem 2: q.+\nitem 3: petId .+ as in item 1\nitem 3: q.+\nproblems .+: 5;/,
    );
    const lined = importFile(await file('twice.ndjson', '{"petId":1,"quantity":1,"status":"sold"}\n'.repeat(2)));
    await expect(lined).rejects.toThrow(/^line 2: petId is the same as in line 1\n/);
  });

  it('records --by with each change, and refuses a text that is not one short line', async () => {
    expect((await importCsv('8,1,sold', '--by', 'night\u202eshift')).code).toBe(0);
    expect(await store.changes()).toEqual(['8 > 1 sold command:import night\ufffdshift']);
    await importFile(await file(`${'x'.repeat(240)}.csv`, `${CSV_HEADER}8,2,sold\n`), { missing: 'keep' });
    expect((await store.changes())[1]).toMatch(/^8 1 sold > 2 sold command:import .{200}$/); // the file's name is cut off
    for (const wrong of ['', 'night\nshift', 'x'.repeat(201)]) {
      const { code, stderr } = await importCsv('8,1,sold', '--by', wrong);
      expect(code).toBe(2);
      expect(stderr).toContain('It must have 1 to 200 printable characters.');
    }
  });

  it('records --reason with each change, and refuses one that an update could not have', async () => {
    await store.sql(
      `INSERT INTO inventory_item VALUES (1, 1, 'sold'), (2, 2, 'sold'); SET inventory.reason = 'theirs'`,
    );
    onTestFinished(() => store.sql('RESET inventory.reason').then(() => undefined));
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
    for (const wrong of ['', 'two words', 'x'.repeat(65), makeKey()]) {
      const { code, stderr } = await importCsv('1,7,sold', '--reason', wrong);
      expect(code).toBe(2);
      expect(stderr).toContain('It must be 1 to 64 of the characters A-Z, a-z, 0-9, _ and -, and no API key.');
    }
  });

  it('changes nothing after Ctrl-C, and prints so', async () => {
    const child = startInventory(store.url, IMPORT_CSV);
    child.stdin.write(`${CSV_HEADER}8,1,sold\n`);
    await untilSessionOf('import', store.database, `query LIKE 'COPY incoming%'`);
    child.kill('SIGINT');
    expect(await outcomeOf(child)).toEqual({ code: 130, stdout: '', stderr: 'interrupted: nothing was changed\n' });
    expect(await store.changes()).toEqual([]);
  });

  it('locks pets in the order of their ids, and prints after Ctrl-C meanwhile that nothing was changed', async () => {
    const told = vi.spyOn(console, 'error').mockReturnValue();
    onTestFinished(() => told.mockRestore());
    const first = 'SELECT FROM inventory_item WHERE pet_id = -9223372036854775808 FOR UPDATE';
    await store.database.session(first);
    const strangers = process.listeners('exit');
    const pets = OLD.replaceAll(/,\d+,/g, ',1,').trimEnd().split('\n').toReversed();
    const finished = Promise.allSettled([importFile(await file('locked.csv', `${CSV_HEADER}${pets.join('\n')}\n`))]);
    await untilSessionOf('import', store.database, `wait_event_type = 'Lock'`);
    for (const tell of process.listeners('exit').filter((each) => !strangers.includes(each))) tell(130);
    expect(await store.sql('SELECT FROM inventory_item FOR UPDATE SKIP LOCKED')).toHaveLength(3);
    await store.sql(`SELECT pg_cancel_backend(pid) FROM pg_stat_activity
      WHERE datname = current_database() AND application_name = 'inventory import'`);
    expect(await finished).toMatchObject([{ status: 'rejected' }]);
    expect(told.mock.calls).toEqual([['interrupted: nothing was changed']]);
  });

  it('records as the old state of a pet what a writer that it waited for has committed', async () => {
    const change = (quantity: number, petId: string) =>
      `UPDATE inventory_item SET quantity = ${quantity} WHERE pet_id = ${petId}`;
    const writer = await store.database.session(
      ...[change(5, '7'), change(4, '9007199254740993'), change(6, '-9223372036854775808')],
    );
    const pets = '7,13,available\n9007199254740993,4,pending\n9223372036854775807,2147483647,available\n';
    const counts = importFile(await file('late.csv', CSV_HEADER + pets), { by: 'me' });
    await untilSessionOf('import', store.database, `wait_event_type = 'Lock'`);
    await writer.query('COMMIT');
    expect(await counts).toEqual({ added: 0, changed: 1, unchanged: 2, removed: 1 });
    expect((await store.changes()).filter((line) => line.endsWith(' command:import me'))).toEqual([
      '-9223372036854775808 6 sold > command:import me',
      '7 5 available > 13 available command:import me',
    ]);
  });

  it('changes nothing when another writer adds one of its new pets meanwhile', async () => {
    const writer = await store.database.session(`INSERT INTO inventory_item VALUES (8, 2, 'pending')`);
    const pets = `${OLD.replaceAll(/,\d+,/g, ',1,')}8,1,sold\n`;
    const failure = expect(importFile(await file('late.csv', CSV_HEADER + pets))).rejects.toMatchObject({
      code: '23505',
    });
    await untilSessionOf('import', store.database, `wait_event_type = 'Lock'`);
    await writer.query('COMMIT');
    await failure;
    expect(await store.stock()).toBe(OLD.replace('7,12,available\n', '7,12,available\n8,2,pending\n'));
  });

  it('keeps nothing in its session after its transaction, for a pooler may give the session to another import', async () => {
    const client = await store.database.session();
    await client.query(`SET default_transaction_isolation = serializable`);
    const shown = `SELECT name, setting FROM pg_settings WHERE name ~ 'timeout$|^work_mem|check_interval$'
      UNION ALL SELECT 'recorded in', coalesce(current_setting('inventory.recorded_in', true), '')
      UNION ALL SELECT 'locks', count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()
      ORDER BY name`;
    const { rows: before } = await client.query<object>(shown);
    const settings = ['transaction_isolation', 'client_connection_check_interval', 'temp_buffers', 'work_mem'];
    const within = `SELECT concat_ws(', ', ${settings.map((name) => `current_setting('${name}')`).join()}) AS settings,
      reltuples AS analyzed FROM pg_class WHERE oid = 'incoming'::regclass`;
    for (let turn = 1; turn <= 2; turn++) {
      await loadRows(client, Readable.from(['1,,1,2,sold,\n']));
      expect((await client.query<object>(within)).rows).toEqual([
        { settings: 'read committed, 1s, 64MB, 64MB', analyzed: 1 },
      ]);
      await awaitTurn(client);
      await planMerge(client, RULES, { rows: 1 }, 'line', true);
      await writePlanned(client, { changedBy: 'command:import', reason: undefined }, 'line');
      await client.query('COMMIT');
      expect((await client.query<object>(shown)).rows).toEqual(before);
    }
  });

  it('changes nothing, or all, after Ctrl-C during its commit, and prints that it cannot tell', async () => {
    await store.sql(`
      CREATE FUNCTION wait() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(20); RETURN NULL; END $$;
      CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON inventory_item INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait()`);
    const child = startInventory(store.url, [...IMPORT_CSV, '--new', 'add']);
    child.stdin.end(`${CSV_HEADER}8,1,sold\n`);
    await untilSessionOf('import', store.database, `wait_event = 'PgSleep'`);
    child.kill('SIGTERM');
    const told = 'interrupted during the commit: "inventory history" tells whether it happened\n';
    expect(await outcomeOf(child)).toEqual({ code: 143, stdout: '', stderr: told });
    await store.sql('DROP FUNCTION wait CASCADE');
  });

  it('prints after its commit that it is done, when Ctrl-C ends it then', async () => {
    const told = vi.spyOn(console, 'error').mockReturnValue();
    const end = vi.spyOn(Client.prototype, 'end').mockImplementationOnce(function (this: Client) {
      process.listeners('exit').at(-1)?.(130);
      void this.end();
    });
    onTestFinished(() => {
      told.mockRestore();
      end.mockRestore();
    });
    await importFile(await file('done.csv', `${CSV_HEADER}8,1,sold\n`));
    expect(told.mock.calls).toEqual([['interrupted after the commit: the import is done']]);
  });

  it('prints every two seconds what it does, unless with --quiet', async () => {
    const told = vi.spyOn(console, 'error').mockReturnValue();
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
    onTestFinished(() => {
      vi.useRealTimers();
      told.mockRestore();
    });
    const pipe = join(folder, 'slow.csv');
    execFileSync('mkfifo', [pipe]);
    process.env['DATABASE_URL'] = store.url;
    const counts = importStock(pipe, { ...RULES, dryRun: true });
    await using writer = await open(pipe, 'w');
    await writer.write(`${CSV_HEADER}7,13,available\n`);
    await untilSessionOf('import', store.database, `query LIKE 'COPY incoming%'`);
    vi.advanceTimersByTime(2_000);
    const holder = await store.database.session('LOCK TABLE inventory_item');
    await writer.close();
    await untilSessionOf('import', store.database, `wait_event_type = 'Lock'`);
    vi.advanceTimersByTime(2_000);
    await holder.end();
    expect((await counts).summary).toMatchObject({ changed: 1 });
    const lines = told.mock.calls.map(([line]) => String(line).replace('0 pets', '1 pets')); // the first may not be read yet
    expect(lines).toEqual(['reading: 1 pets, 2 s', 'comparing: 1 pets, 4 s']);
  });

  it('prints one line when it is cancelled while it waits for another import, and waits no more once it is killed', async () => {
    await store.database.session(`SELECT pg_advisory_xact_lock(hashtextextended('inventory import', 0))`);
    const killed = startInventory(store.url, IMPORT_CSV);
    killed.stdin.end(`${CSV_HEADER}8,1,sold\n`);
    await untilSessionOf('import', store.database, `wait_event = 'advisory'`);
    killed.kill('SIGKILL');
    await expect.poll(() => sessionsOf('import', store.database)).toEqual([]); // by itself it would wait for a minute
    const outcome = importCsv('8,1,sold', '--quiet');
    const waits = `application_name = 'inventory import' AND wait_event = 'advisory'`;
    const cancel = `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND ${waits}`;
    await pause(5_200); // for other locks it waits 5 s
    await expect.poll(() => store.sql(cancel)).toHaveLength(1);
    const reason = 'the database cut the statement off: it took too long, or somebody cancelled it';
    expect(await outcome).toEqual(failed(reason));
  });

  // The proxy reads the protocol to find the commit, and cannot read TLS.
  it.skipIf(process.env['TEST_DATABASE_TLS'])(
    'prints that the outcome is unknown when the answer to its commit is lost, and which command shows it',
    async () => {
      const proxy = new TcpProxy(store.url);
      const url = await proxy.listen();
      proxy.cutBeforeAnswer(1);
      const outcome = await inventory(url, [...IMPORT_CSV, '--new', 'add'], `${CSV_HEADER}8,1,sold\n`);
      expect(outcome.code).toBe(1);
      expect(outcome.stderr).toMatch(
        /^error: the .+; check DATABASE_URL.*\ninterrupted during the commit: "inventory history" tells whether it happened\n$/,
      );
      expect(await store.changes()).toHaveLength(1);
    },
  );

  it('prints one line when PostgreSQL refuses the commit', async () => {
    await store.sql(`
      CREATE FUNCTION refuse() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN RAISE 'not today'; END $$;
      CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON inventory_item INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()`);
    onTestFinished(() => store.sql('DROP FUNCTION refuse CASCADE').then(() => undefined));
    const outcome = await importCsv('8,1,sold');
    const full = `CREATE OR REPLACE FUNCTION refuse() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN RAISE disk_full; END $$`;
    await store.sql(full);
    await expect(importFile(await file('refused.csv', `${CSV_HEADER}8,1,sold\n`))).rejects.toThrow(/^disk_full$/);
    expect(outcome).toEqual(failed('not today (P0001)'));
    expect(await store.stock()).toBe(OLD);
  });
});
