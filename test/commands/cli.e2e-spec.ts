import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { type AddressInfo, type Socket, createServer } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import packageFile from '../../package.json' with { type: 'json' };
import { createDatabase, type Database } from '../support/database.ts';
import { inventory, startInventory } from './inventory-command.ts';

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

const tooEarly = 'error: the database has no inventory tables, or not the newest; run "inventory migrate" first\n';

describe('inventory', () => {
  it('tells its version and explains every command', async () => {
    expect(await inventory('', ['--version'])).toEqual({ code: 0, stdout: `${packageFile.version}\n`, stderr: '' });
    const keys = ['keys', 'keys create', 'keys list', 'keys revoke', 'keys rotate'];
    const history = ['history', 'history cursor', 'history prune'];
    await Promise.all(
      ['', 'migrate', ...keys, 'import', 'export', ...history].map(async (command) => {
        const args = command === '' ? [] : command.split(' ');
        const { code, stdout, stderr } = await inventory('', [...args, '--help']);
        expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
        expect(stdout).toContain(`Usage: ${['inventory', ...args].join(' ')}`);
      }),
    );
  });

  it('ends at once on a Node.js that would round ids, and so does the service', () => {
    const older = ['--import', 'data:text/javascript,delete JSON.rawJSON'];
    for (const program of ['dist/cli.js', 'dist/main.js']) {
      const { status, stderr } = spawnSync(process.execPath, [...older, program], {
        encoding: 'utf8',
        timeout: 10_000,
      });
      const line = `inventory: needs Node.js 24 or newer, and this is ${process.version}\n`;
      expect({ status, stderr }).toEqual({ status: 1, stderr: line });
    }
  });

  it('answers wrong use with exit code 2', async () => {
    const wrong = [
      [],
      ['keys'],
      ['bogus'],
      ['import'],
      ['import', 'x.csv', '--missing', 'maybe'],
      ['history', '01'],
      ['history', '1', '--follow'],
      ['history', '--after', '-1'],
      ['history', '--follow', '--since', '1h'],
      ['history', '--verify', '--after', '1'],
      ['history', '--verify', '--limit', '5'],
      ['history', '--verify', '--since', '1h'],
      ['history', '--since', '0000-01-01'],
    ];
    const outcomes = await Promise.all(wrong.map((args) => inventory('postgresql://127.0.0.1:1/x', args)));
    expect(outcomes.map(({ code, stdout }) => ({ code, stdout }))).toEqual(wrong.map(() => ({ code: 2, stdout: '' })));
  });

  it('migrates a database, and says so when there is nothing to do or nothing was done yet', async () => {
    for (const args of [['keys', 'list'], ['export'], ['history', '1']]) {
      expect(await inventory(empty.url, args)).toEqual({ code: 1, stdout: '', stderr: tooEarly });
    }
    const first = await inventory(empty.url, ['migrate']);
    expect(first).toMatchObject({ code: 0, stdout: '' });
    expect(first.stderr).toMatch(/^applied 2026\d+_inventory$/m);
    expect((await inventory(empty.url, ['migrate'])).stderr).toBe('the database is up to date\n');
  });

  it('says where the schema is an older one, and writes nothing to it', async () => {
    const old = await createDatabase({ migrated: false });
    const names = readdirSync('prisma/migrations').sort();
    for (const name of names.slice(0, 3))
      await old.sql(readFileSync(`prisma/migrations/${name}/migration.sql`, 'utf8'));
    await old.sql(`INSERT INTO inventory_item VALUES (1, 1, 'available')`);
    for (const args of [
      ['import', 'prisma/demo-stock.csv'],
      ['history', 'prune', '--before', '0s'],
      ['history', 'cursor'],
      ['history', '1'],
    ]) {
      expect(await inventory(old.url, args)).toEqual({ code: 1, stdout: '', stderr: tooEarly });
    }
    expect(await old.sql('SELECT quantity_after FROM stock_change')).toEqual([{ quantity_after: 1 }]);
    const elsewhere = new URL(old.url);
    elsewhere.searchParams.set('schema', 'shop');
    expect((await inventory(elsewhere.href, ['migrate'])).stderr).toBe(
      'error: the database has no schema "public", or what DATABASE_URL has as its schema; make it first\n',
    );
    await old.drop();
  });

  it('ends by a signal that it listens for, as process 1 of a container must', async () => {
    for (const [signal, code] of [['SIGTERM', 143] as const, ['SIGINT', 130] as const]) {
      const child = startInventory(silentUrl, ['keys', 'list']);
      const [connection] = (await once(silent, 'connection')) as [Socket];
      child.kill(signal);
      expect(await once(child, 'exit')).toEqual([code, null]);
      connection.destroy();
    }
  });

  it('says in one line what is wrong with the database, and never its password', async () => {
    const url = new URL(empty.url);
    const nobody = `postgresql://nobody:hunter2@${url.host}${url.pathname}${url.search}`;
    const cases: [string, RegExp][] = [
      ['', /^error: DATABASE_URL /],
      ['mysql://a:hunter2@b/c', /^error: DATABASE_URL must be a postgresql:\/\/ address\n$/],
      ['postgresql://a:hunter2@127.0.0.1:1/x', /^error: the database cannot be reached: /],
      [
        silentUrl,
        /^error: the database cannot be reached: it did not answer in time|^error: the connection to the database was lost/,
      ],
      [nobody, /^error: .*nobody/],
    ];
    const tries = [['keys', 'list'], ['export']].flatMap((command) => cases.map((each) => [command, ...each] as const));
    await Promise.all(
      tries.map(async ([command, databaseUrl, message]) => {
        const { code, stdout, stderr } = await inventory(databaseUrl, command);
        expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
        expect(stderr).toMatch(message);
        expect(stderr.trim().split('\n')).toHaveLength(1);
        expect(stderr).not.toContain('hunter2');
      }),
    );
  });
});
