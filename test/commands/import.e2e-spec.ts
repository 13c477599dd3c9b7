import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { once } from 'node:events';
import { hostname, tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { importStock } from '../../src/commands/import.ts';
import { SeededRandom } from '../../faults/seeded-random.ts';
import { TcpProxy } from '../../faults/tcp-proxy.ts';
import { malformedFiles } from './malformed-stock.ts';
import { inventory, startInventory } from './inventory-command.ts';
import { openStore, type Store } from './store.ts';

let store: Store;
let folder: string;
/** The newest change at the beginning of the test. */
let before: { id: string } | undefined;
beforeAll(async () => {
  [store, folder] = await Promise.all([openStore(), mkdtemp(join(tmpdir(), 'inventory-import-'))]);
});
afterAll(async () => {
  await Promise.all([store.close(), rm(folder, { recursive: true })]);
});

const old =
  '-9223372036854775808,0,sold\n7,12,available\n9007199254740993,3,pending\n9223372036854775807,2147483647,available\n';
const header = 'petId,quantity,status\n';

beforeEach(async () => {
  await store.sql('TRUNCATE inventory_item');
  await store.sql(`INSERT INTO inventory_item VALUES (-9223372036854775808, 0, 'sold'), (7, 12, 'available'),
    (9007199254740993, 3, 'pending'), (9223372036854775807, 2147483647, 'available')`);
  [before] = await store.sql<{ id: string }>('SELECT max(id) AS id FROM stock_change');
});

async function file(name: string, content: string | Buffer): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, content);
  return path;
}

/** The history that the test has written. */
const changes = () => store.changes(before?.id);

describe('inventory import', () => {
  it('changes what differs, adds what is new, keeps the rest, and says so', async () => {
    const [untouched] = await store.sql(`SELECT ctid, xmin FROM inventory_item WHERE pet_id = 7`);
    const path = await file('some.csv', `status,petId,quantity\navailable,7,12\nsold,8,1\nsold,9007199254740993,4\n`);
    expect(await store.inventory('import', path, '--json', '--quiet')).toEqual({
      code: 0,
      stdout: `${JSON.stringify({ added: 1, changed: 1, unchanged: 1, removed: 0, dryRun: false }, null, 2)}\n`,
      stderr: '',
    });
    expect(await store.stock()).toBe(
      old
        .replace('7,12,available\n', '7,12,available\n8,1,sold\n')
        .replace('9007199254740993,3,pending', '9007199254740993,4,sold'),
    );
    expect(await store.sql(`SELECT ctid, xmin FROM inventory_item WHERE pet_id = 7`)).toEqual([untouched]);
    const by = `command:import ${userInfo().username}@${hostname()} some.csv`;
    expect(await changes()).toEqual([`8 > 1 sold ${by}`, `9007199254740993 3 pending > 4 sold ${by}`]);
  });

  it('removes what the file does not have only when asked to', async () => {
    const path = await file('one.csv', `${header}7,12,available\n`);
    const { stderr } = await store.inventory('import', path, '--missing', 'remove', '--by', 'me');
    expect(stderr).toMatch(/^0 added, 0 changed, 1 unchanged, 3 removed in \d+\.\d s\n$/);
    expect(await store.stock()).toBe('7,12,available\n');
    expect(await changes()).toEqual([
      '-9223372036854775808 0 sold > command:import me',
      '9007199254740993 3 pending > command:import me',
      '9223372036854775807 2147483647 available > command:import me',
    ]);
    const empty = await store.inventoryReading(header, 'import', '-', '--format', 'csv', '--missing', 'remove');
    expect(empty.code).toBe(1);
    expect(empty.stderr).toContain('error: the file has no pet; it would remove them all');
    expect(await store.stock()).toBe('7,12,available\n');
  });

  it('changes nothing on a dry run but tells the same', async () => {
    const path = await file('dry.csv', `${header}7,13,available\n8,1,sold\n9223372036854775807,2147483647,available\n`);
    const { stdout, stderr } = await store.inventory('import', path, '--dry-run', '--missing', 'remove', '--json');
    expect(JSON.parse(stdout)).toEqual({ added: 1, changed: 1, unchanged: 1, removed: 2, dryRun: true });
    expect(stderr).toContain('dry run, nothing was written: 1 added, 1 changed, 1 unchanged, 2 removed');
    expect(await store.stock()).toBe(old);
    expect(await changes()).toEqual([]);
  });

  it('takes what export has written, in every format, packed or not, and finds nothing to change', async () => {
    const formats = ['csv', 'ndjson', 'json'];
    const [csv, ndjson, json] = await Promise.all(
      formats.map((format) => store.inventory('export', '--format', format)),
    );
    expect(csv).toEqual({ code: 0, stdout: header + old, stderr: '' });
    expect(ndjson?.stdout.split('\n')[2]).toBe('{"petId":9007199254740993,"quantity":3,"status":"pending"}');
    expect((JSON.parse(json?.stdout ?? '') as unknown[]).length).toBe(4);

    await store.sql('TRUNCATE inventory_item');
    const paths = await Promise.all([
      file('all.csv.gz', gzipSync(csv?.stdout ?? '')),
      file('all.JSONL', ndjson?.stdout ?? ''),
      file('all.json', json?.stdout ?? ''),
    ]);
    const summaries = [];
    for (const path of paths) summaries.push(await store.inventory('import', path, '--missing', 'remove'));
    expect(summaries.map(({ stderr }) => /^(.* removed) in [\d.]+ s$/m.exec(stderr)?.[1])).toEqual([
      '4 added, 0 changed, 0 unchanged, 0 removed',
      '0 added, 0 changed, 4 unchanged, 0 removed',
      '0 added, 0 changed, 4 unchanged, 0 removed',
    ]);
    expect(await store.stock()).toBe(old);
  });

  it('reads BOM, CRLF, quotes, empty lines and numbers as JSON writes them', async () => {
    const csv = `\ufeff"petId",quantity,"status"\r\n\r\n"1",2,sold\r\n3,"4","pending"`;
    expect(await store.inventoryReading(csv, 'import', '-', '--format', 'csv', '--missing', 'remove')).toMatchObject({
      code: 0,
    });
    expect(await store.stock()).toBe('1,2,sold\n3,4,pending\n');
    const json = `\ufeff[ {"status":"sold","quantity":2e2,"petId":1},\r\n{"petId":3,\n"quantity":-0.0,"status":"pend\\u0069ng"} ]\r\n`;
    expect(await store.inventoryReading(json, 'import', '-', '--format', 'json')).toMatchObject({ code: 0 });
    expect(await store.stock()).toBe('1,200,sold\n3,0,pending\n');
  });

  it('says what is wrong with a file that cannot be read', async () => {
    const cut = await file('cut.csv.gz', gzipSync(header + old).subarray(0, 40));
    const plain = await file('plain.csv.gz', header + old);
    const cases: [string, string][] = [
      [join(folder, 'none.csv'), `there is no file ${join(folder, 'none.csv')}`],
      [
        join(folder, 'stock.xlsx'),
        'the name does not tell the format; add --format csv, --format ndjson, --format json',
      ],
      [cut, `${cut} is not sound gzip: unexpected end of file`],
      [plain, `${plain} is not sound gzip: incorrect header check`],
    ];
    await Promise.all(
      cases.map(async ([path, message]) => {
        const outcome = await store.inventory('import', path);
        expect(outcome).toEqual({ code: 1, stdout: '', stderr: `error: ${message}\n` });
      }),
    );
    expect(await store.stock()).toBe(old);
  });

  it('tells the first 20 problems with their lines, duplicates among them, and the count of all', async () => {
    const lines = Array.from({ length: 60 }, (_, at) => (at % 2 ? `${at},-1,gone` : `${at % 8},1,sold`));
    const { code, stderr } = await store.inventoryReading(header + lines.join('\n'), 'import', '-', '--format', 'csv');
    const told = stderr.split('\n');
    expect(code).toBe(1);
    expect(told.slice(0, 5)).toEqual([
      'error: line 3: quantity must be an integer from 0 to 2147483647, not "-1" (pet 1)',
      'line 3: status must be one of available, pending, sold, not "gone" (pet 1)',
      'line 5: quantity must be an integer from 0 to 2147483647, not "-1" (pet 3)',
      'line 5: status must be one of available, pending, sold, not "gone" (pet 3)',
      'line 7: quantity must be an integer from 0 to 2147483647, not "-1" (pet 5)',
    ]);
    expect(told).toContain('line 10: petId is the same as in line 2');
    expect(told.slice(20)).toEqual(['… and 66 more', '86 problems in the file; nothing was written', '']);
    expect(await store.stock()).toBe(old);
  });

  it('tells the wrong value of any type and its pet, short and without what could steer a terminal', async () => {
    const items = [
      `{"petId":"5","quantity":1,"status":"sold"}`,
      `{"petId":6,"quantity":[1],"status":"\\u001b[2J\\u009b${'x'.repeat(50)}"}`,
      `{"petId":7,"quantity":null}`,
    ];
    const { stderr } = await store.inventoryReading(items.join('\n'), 'import', '-', '--format', 'ndjson');
    expect(stderr.split('\n').slice(0, -2)).toEqual([
      'error: line 1: petId must be an integer from -9223372036854775808 to 9223372036854775807, in plain digits, not "5"',
      'line 2: quantity must be an integer from 0 to 2147483647, not "[1]" (pet 6)',
      `line 2: status must be one of available, pending, sold, not "\\u001b[2J\ufffd${'x'.repeat(35)}…" (pet 6)`,
      'line 3: quantity must be an integer from 0 to 2147483647, not "null" (pet 7)',
      'line 3: status is missing (pet 7)',
    ]);
  });

  it('signs its changes with what the operator says, which is one short line', async () => {
    const importBy = (who: string) =>
      store.inventoryReading(`${header}8,1,sold\n`, 'import', '-', '--format', 'csv', '--by', who);
    expect((await importBy('night\u202eshift')).code).toBe(0);
    expect(await changes()).toEqual(['8 > 1 sold command:import night\ufffdshift']);
    for (const wrong of ['', 'night\nshift', 'x'.repeat(201)]) {
      const { code, stderr } = await importBy(wrong);
      expect(code).toBe(2);
      expect(stderr).toContain('It must have 1 to 200 printable characters.');
    }
  });

  it.each([
    ['Ctrl-C', 'SIGINT', 130],
    ['SIGTERM', 'SIGTERM', 143],
  ] as const)('says after %s that nothing was changed, and nothing is', async (_, signal, code) => {
    const child = startInventory(store.url, ['import', '-', '--format', 'csv']);
    child.stdin.write(`${header}8,1,sold\n`);
    const loading = `SELECT FROM pg_stat_activity WHERE application_name = 'inventory import' AND query LIKE 'COPY incoming%'
      AND datname = current_database()`;
    await expect.poll(() => store.sql(loading), { timeout: 10_000 }).toHaveLength(1);
    child.kill(signal);
    const [stderr] = await Promise.all([text(child.stderr), once(child, 'close')]);
    expect({ code: child.exitCode, stderr }).toEqual({ code, stderr: 'interrupted: nothing was changed\n' });
    expect(await changes()).toEqual([]);
  });

  // The proxy finds the end of a commit in what passes, and TLS hides that.
  it.skipIf(process.env['TEST_DATABASE_TLS'])(
    'says that the outcome is unknown when the answer to its commit is lost, and where to find it',
    async () => {
      const proxy = new TcpProxy(store.url);
      const url = new URL(store.url);
      [url.hostname, url.port] = ['127.0.0.1', String(await proxy.listen())];
      proxy.cutBeforeAnswer(1);
      const outcome = await inventory(url.href, ['import', '-', '--format', 'csv'], `${header}8,1,sold\n`);
      await proxy.close();
      expect(outcome.code).toBe(1);
      expect(outcome.stderr).toMatch(
        /^error: .+\ninterrupted during the commit: "inventory history" tells whether it happened\n$/,
      );
      expect(await changes()).toHaveLength(1);
    },
  );

  it('says only what is wrong when PostgreSQL refuses the commit', async () => {
    await store.sql(`
      CREATE FUNCTION refuse() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not today'; END $$;
      CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON inventory_item INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()`);
    const outcome = await store.inventoryReading(`${header}8,1,sold\n`, 'import', '-', '--format', 'csv');
    await store.sql('DROP FUNCTION refuse CASCADE');
    expect(outcome).toEqual({ code: 1, stdout: '', stderr: 'error: not today (P0001)\n' });
    expect(await store.stock()).toBe(old);
  });

  it('refuses 200 malformed files, each with a precise message, and changes nothing', { timeout: 60_000 }, async () => {
    process.env['DATABASE_URL'] = store.url; // the command's own function: 200 processes would take a minute
    const seed = 20261120;
    const random = new SeededRandom(seed);
    const files = malformedFiles(200, () => random.next());
    expect(files.length).toBeGreaterThanOrEqual(200);
    for (const [at, { format, text: content, problem }] of files.entries()) {
      const path = await file(`malformed-${at}.${format}`, content);
      const failure = await importStock(path, { missing: 'remove', quiet: true }).catch(
        (error: unknown) => error as Error,
      );
      const message = failure instanceof Error ? failure.message : 'it was imported';
      const told = message.split('\n')[0]?.replace(/(, not .+?)?( \(pet -?\d+\))?$|(?<=not valid JSON): .*/, '');
      expect({ content, told }).toEqual({ content, told: problem });
      if (problem.includes('must be an integer')) expect(message).toContain(', not ');
    }
    expect(await store.stock()).toBe(old);
    expect(await changes()).toEqual([]);
  });
});
