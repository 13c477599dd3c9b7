import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, type Socket, createServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import packageFile from '../../package.json' with { type: 'json' };
import { createDatabase, type Database } from '../support/database.ts';
import { EXPORT_FAILED, inventory, startInventory } from './inventory-command.ts';

let empty: Database;
/** Takes connections and says nothing. */
const silent = createServer();
let silentUrl: string;
beforeAll(async () => {
  empty = await createDatabase({ migrated: false });
  await once(silent.listen(0, '127.0.0.1'), 'listening');
  silentUrl = `postgresql://a:hunter2@127.0.0.1:${(silent.address() as AddressInfo).port}/x`;
});
afterAll(async () => {
  silent.close();
  await empty.drop();
});

const TOO_EARLY = {
  code: 1,
  stdout: '',
  stderr: 'error: the database has no inventory tables, or not the newest; run "inventory migrate" first\n',
};

/** Runs a command as one types it. */
function run(line: string, databaseUrl = 'postgresql://127.0.0.1:1/x') {
  return inventory(databaseUrl, line.split(' ').slice(1));
}

describe('inventory', () => {
  it('tells its version and explains every command', async () => {
    expect(await run('inventory --version')).toEqual({ code: 0, stdout: `${packageFile.version}\n`, stderr: '' });
    const keys = ['keys', 'keys create', 'keys list', 'keys revoke', 'keys rotate'];
    const others = ['migrate', 'import', 'export', 'history', 'history cursor', 'history prune'];
    for (const line of ['inventory', ...[...keys, ...others].map((command) => `inventory ${command}`)]) {
      const { code, stdout, stderr } = await run(`${line} --help`);
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      expect(stdout).toContain(`Usage: ${line}`);
    }
  });

  it('ends at once on a Node.js that would round ids, and so does the service', () => {
    const older = ['--import', 'data:text/javascript,delete JSON.rawJSON'];
    const told = `inventory: needs Node.js 24 or newer, and this is ${process.version}\n`;
    for (const program of ['dist/cli.js', 'dist/main.js']) {
      const args = [...older, program];
      const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 10_000 });
      expect({ status, stderr }).toEqual({ status: 1, stderr: told });
    }
  });

  it.each([
    'inventory',
    'inventory keys',
    'inventory bogus',
    'inventory import',
    'inventory import x.csv --missing maybe',
    'inventory history 01',
    'inventory history 1 --follow',
    'inventory history --after -1',
    'inventory history --follow --since 1h',
    'inventory history --verify --after 1',
    'inventory history --verify --limit 5',
    'inventory history --verify --since 1h',
  ])('answers wrong use with exit code 2: %s', async (line) => {
    expect(await run(line)).toMatchObject({ code: 2, stdout: '' });
  });

  it('migrates a database, and says so when there is nothing to do or nothing was done yet', async () => {
    for (const line of ['inventory keys list', 'inventory history 1']) {
      expect(await run(line, empty.url)).toEqual(TOO_EARLY);
    }
    expect(await run('inventory export', empty.url)).toEqual({ ...TOO_EARLY, stdout: EXPORT_FAILED });
    const first = await run('inventory migrate', empty.url);
    expect(first).toMatchObject({ code: 0, stdout: '' });
    expect(first.stderr).toMatch(/^applied 2026\d+_init$/m);
    expect((await run('inventory migrate', empty.url)).stderr).toBe('the database is up to date\n');
  });

  it('says where the schema is an older one, and writes nothing to it', async () => {
    const old = await createDatabase();
    await old.sql(`INSERT INTO inventory_item VALUES (1, 1, 'available');
      UPDATE _prisma_migrations SET rolled_back_at = now(); ALTER TABLE stock_change RENAME id TO number`);
    for (const command of [
      'import prisma/demo-stock.csv',
      'history prune --before 0s',
      'history cursor',
      'history 1',
    ]) {
      expect(await run(`inventory ${command}`, old.url)).toEqual(TOO_EARLY);
    }
    expect(await old.sql('SELECT quantity_after FROM stock_change')).toEqual([{ quantity_after: 1 }]);
    await old.drop();
  });

  it('says that a schema which is not there has to be made first', async () => {
    const elsewhere = new URL(empty.url);
    elsewhere.searchParams.set('schema', 'shop');
    expect((await run('inventory migrate', elsewhere.href)).stderr).toBe(
      'error: the database has no schema "public", or what DATABASE_URL has as its schema; make it first\n',
    );
  });

  it.each([
    ['SIGTERM', 143],
    ['SIGINT', 130],
  ] as const)('ends by %s, to which process 1 of a container must listen', async (signal, code) => {
    const child = startInventory(silentUrl, ['keys', 'list']);
    const [connection] = (await once(silent, 'connection')) as [Socket];
    child.kill(signal);
    expect(await once(child, 'exit')).toEqual([code, null]);
    connection.destroy();
  });

  it('says in one line what is wrong with the database, and never its password', async () => {
    const nobody = new URL(empty.url);
    [nobody.username, nobody.password] = ['nobody', 'hunter2'];
    const cases: [string, RegExp][] = [
      ['', /^error: DATABASE_URL .+\n$/], // one line, for "." takes no line break
      ['mysql://a:hunter2@b/c', /^error: DATABASE_URL must be a postgresql:\/\/ address .+\n$/],
      ['postgresql://a:hunter2@127.0.0.1:1/x', /^error: the database cannot be reached: .+\n$/],
      [silentUrl, /^error: the database did not answer in time; .+\n$/],
      [nobody.href, /^error: .*nobody.*\n$/],
    ];
    for (const [databaseUrl, message] of cases) {
      const outcomes = await Promise.all([
        run('inventory keys list', databaseUrl),
        run('inventory export', databaseUrl),
      ]);
      const stderr = expect.stringMatching(message) as string;
      expect(outcomes).toEqual(['', EXPORT_FAILED].map((stdout) => ({ code: 1, stdout, stderr })));
      for (const outcome of outcomes) expect(outcome.stderr).not.toContain('hunter2');
    }
  });
});
