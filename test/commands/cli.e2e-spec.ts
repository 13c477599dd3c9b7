import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import packageFile from '../../package.json' with { type: 'json' };
import { createDatabase, type Database } from '../support/database.ts';
import { EXPORT_FAILED, failed, inventory, printed, startInventory } from './inventory-command.ts';

let empty: Database;
/** Accepts connections and sends nothing. */
const silent = createServer();
let silentUrl: string;
beforeAll(async () => {
  empty = await createDatabase({ migrated: false });
  await once(silent.listen(0, '127.0.0.1'), 'listening');
  silentUrl = `postgresql://a:hunter2@127.0.0.1:${(silent.address() as AddressInfo).port}/x`;
});
afterAll(() => void silent.close());

/** A module that makes Node.js print each module of Prisma's packages that it loads. */
const PRINTS_PRISMA = `data:text/javascript,
  import { registerHooks } from 'node:module';
  const load = (url, context, next) => (url.includes('/@prisma/') && console.error(url), next(url, context));
  registerHooks({ load })`;

const TOO_EARLY = failed(
  'the database has no inventory tables, or not the newest; if DATABASE_URL names the right database, run "inventory migrate" as the owner of the tables (in DATABASE_URL); if nothing is to migrate, "inventory check" says what is missing',
);

/** Runs a command line of a shell. */
function run(line: string, databaseUrl = 'postgresql://127.0.0.1:1/x') {
  return inventory(databaseUrl, line.split(' ').slice(1));
}

describe('inventory', () => {
  it('prints its version and its help', async () => {
    expect(await run('inventory --version')).toEqual(printed(`${packageFile.version}\n`));
    const help = await run('inventory --help');
    expect(help).toMatchObject({ code: 0, stderr: '' });
    expect(help.stdout).toContain('Exit codes: 0 done, 1 failed, 2 wrong use.');
  });

  it('exits with 2 after wrong use also when nobody reads what it prints', async () => {
    const child = startInventory('', ['bogus']);
    child.stderr.destroy();
    await once(child, 'close');
    expect(child.exitCode).toBe(2);
  });

  it('ends at once on a Node.js without JSON.rawJSON, which would round ids, as the service does', () => {
    const older = ['--import', 'data:text/javascript,delete JSON.rawJSON'];
    const message = `inventory: needs Node.js 24 or newer, and this is ${process.version}\n`;
    for (const program of ['dist/cli.js', 'dist/main.js']) {
      const args = [...older, program];
      const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 10_000 });
      expect({ status, stderr }).toEqual({ status: 1, stderr: message });
    }
  });

  it('refuses a database that is not migrated, migrates it, and reports without Prisma that it is up to date', async () => {
    for (const line of ['inventory keys list', 'inventory history 1']) {
      expect(await run(line, empty.url)).toEqual(TOO_EARLY);
    }
    expect(await run('inventory export', empty.url)).toEqual({ ...TOO_EARLY, stdout: EXPORT_FAILED });
    const first = await run('inventory migrate', empty.url);
    expect(first).toMatchObject({ code: 0, stdout: '' });
    const names = readdirSync('prisma/migrations').filter((name) => !name.endsWith('.toml'));
    const applied = names.map((name) => `applied ${name}\n`).join('');
    expect(first.stderr).toBe(`${applied}the database is up to date\n`);
    const elsewhere = { cwd: '/', env: { DATABASE_URL: empty.url }, encoding: 'utf8', timeout: 30_000 } as const;
    const args = ['--import', PRINTS_PRISMA, resolve('dist/cli.js'), 'migrate'];
    const again = spawnSync(process.execPath, args, elsewhere);
    expect([again.status, again.stderr]).toEqual([0, 'the database is up to date\n']);
  });

  it('refuses to write to a database with an older schema, and to read columns that it lacks', async () => {
    const old = await createDatabase();
    await old.sql(`INSERT INTO inventory_item VALUES (1, 1, 'available');
      UPDATE _prisma_migrations SET rolled_back_at = now()`);
    for (const command of ['import prisma/demo-stock.csv', 'history prune --before 0s'])
      expect(await run(`inventory ${command}`, old.url)).toEqual(TOO_EARLY);
    expect(await run('inventory history --verify', old.url)).toEqual(printed('the history of all 1 pets is whole\n'));
    await old.sql('ALTER TABLE stock_change RENAME id TO number');
    for (const command of ['history cursor', 'history 1'])
      expect(await run(`inventory ${command}`, old.url)).toEqual(TOO_EARLY);
    expect(await old.sql('SELECT quantity_after FROM stock_change')).toEqual([{ quantity_after: 1 }]);
  });

  it('refuses a schema that does not exist', async () => {
    const elsewhere = new URL(empty.url);
    elsewhere.searchParams.set('schema', 'shop');
    expect((await run('inventory migrate', elsewhere.href)).stderr).toBe(
      'error: the database has no schema "public", or what DATABASE_URL has as its schema; make it first\n',
    );
  });

  it('prints in one line what is wrong with the database, and never prints a password', async () => {
    const nobody = new URL(empty.url);
    [nobody.username, nobody.password] = ['nobody', 'hunter2'];
    const cases: [string, RegExp][] = [
      ['', /^error: DATABASE_URL .+\n$/], // "." matches no line break
      [
        'mysql://a:hunter2@b/c',
        /^error: DATABASE_URL must be the address of one PostgreSQL server, .+, but its beginning is not readable\n$/,
      ],
      [
        'postgresql://a:hunter2@127.0.0.1:1/x',
        /^error: the database cannot be reached: .+127\.0\.0\.1:1; check DATABASE_URL\n$/,
      ],
      [silentUrl, /^error: the database did not answer in time; .+\n$/],
      [nobody.href, /^error: .*nobody.*\n$/],
    ];
    for (const [url, message] of cases) {
      const outcome = await run('inventory keys list', url);
      expect(outcome).toEqual({ code: 1, stdout: '', stderr: expect.stringMatching(message) as string });
      expect(outcome.stderr).not.toContain('hunter2');
    }
  });
});
