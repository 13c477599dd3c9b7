import { execFileSync, spawn, spawnSync, type SpawnOptions } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  cpSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { isAlive } from '../dev/embedded-postgres.ts';
import { serverAccount } from '../dev/postgres-binaries.ts';
import { applyMigrations } from '../src/database/migrations.ts';
import { createDatabase } from './support/database.ts';

const sources = ['src', 'dev', 'prisma', 'nest-cli.json', 'package-lock.json', 'package.json', 'prisma.config.ts'];
const compilerSettings = ['tsconfig.build.json', 'tsconfig.json'];

const printedCommands = new RegExp(
  [
    String.raw`curl -H "Authorization: (?<credential>[^"]+)" (?<list>\S+)\n[^]+`,
    String.raw`curl -X PATCH -H "Authorization: \k<credential>" -H "Content-Type: application/json" \\\n`,
    String.raw` +-d '(?<body>[^']+)' (?<update>\S+)\n`,
  ].join(''),
);

describe('npm start', { timeout: 60_000 }, () => {
  let project: string;

  // A copy as fresh as a clone, so that the developer's own store and build are left alone.
  beforeAll(() => {
    project = mkdtempSync(join(tmpdir(), 'inventory-start-'));
    for (const part of [...sources, ...compilerSettings]) cpSync(part, join(project, part), { recursive: true });
    rmSync(join(project, 'src/generated'), { recursive: true, force: true });
    symlinkSync(resolve('node_modules'), join(project, 'node_modules'));
  });
  afterAll(() => {
    rmSync(project, { recursive: true, force: true });
  });

  function start(settings: NodeJS.ProcessEnv = {}, account: SpawnOptions = {}) {
    const child = spawn(process.execPath, ['dev/start.ts'], {
      ...account,
      stdio: 'pipe',
      cwd: project,
      env: { PATH: process.env['PATH'], HOME: process.env['HOME'], PORT: '0', HOST: '127.0.0.1', ...settings },
    });
    onTestFinished(() => void child.kill('SIGKILL')); // what it started ends with it
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (text: Buffer) => (output += text.toString()));
    return {
      process: child,
      output: () => output,
      exitCode: once(child, 'close').then(() => child.exitCode),
    };
  }

  /** The commands of the banner, to be run as they are printed. */
  async function ready(started: ReturnType<typeof start>) {
    const printed = await vi.waitFor(
      () => printedCommands.exec(started.output())?.groups ?? Promise.reject(new Error(started.output())),
      { timeout: 50_000, interval: 50 },
    );
    const { credential: authorization = '', list = '', update = '', body: example = '' } = printed;
    const json = { authorization, 'content-type': 'application/json' };
    return {
      list: () => fetch(list, { headers: { authorization } }),
      update: (body = example) => fetch(update, { method: 'PATCH', headers: json, body }),
    };
  }

  function postmaster(): number {
    return Number(readFileSync(join(project, '.data/postgres/data/postmaster.pid'), 'utf8').split('\n')[0]);
  }

  // Root may write everywhere, so the test then runs it as the account that PostgreSQL has.
  const canRead = spawnSync('test', ['-r', resolve('node_modules/pg')], { ...serverAccount }).status === 0;
  it.runIf(canRead)('says that its folder is read-only', async () => {
    chmodSync(project, 0o555);
    onTestFinished(() => chmodSync(project, 0o755));
    const started = start({}, { ...serverAccount });
    expect(await started.exitCode).toBe(1);
    expect(started.output()).toBe(`${project} is read-only for this user; the first build writes to it\n`);
  });

  it('builds, serves the demo stock, and prints commands that work', async () => {
    const started = start();
    const { list, update } = await ready(started);
    expect(started.output()).toContain('Building');

    const stock = await (await list()).text();
    const pets = stock.matchAll(/"petId":(-?\d+),"quantity":(\d+),"status":"(\w+)"/g);
    const demo = readFileSync('prisma/demo-stock.csv', 'utf8').trim().split('\n').slice(1);
    expect(Array.from(pets, ([, ...columns]) => columns.join())).toEqual(demo);
    expect(new Set(demo.map((line) => line.split(',')[2]))).toEqual(new Set(['available', 'pending', 'sold']));
    expect(await (await update()).json()).toEqual({ petId: 1, quantity: 5, status: 'available' });
    expect(statSync(join(project, '.data/demo-api-key')).mode & 0o777).toBe(0o600);

    const pid = postmaster();
    started.process.kill('SIGTERM');
    expect(await started.exitCode).toBe(0);
    await vi.waitFor(() => expect(isAlive(pid)).toBe(false), 10_000);
  });

  it('keeps an acknowledged update through a kill of everything', async () => {
    const killed = start();
    const answer = await (await ready(killed)).update('{"quantity": 777}');
    expect(answer.status).toBe(200);
    process.kill(postmaster(), 'SIGKILL');
    killed.process.kill('SIGKILL');

    const started = start();
    const { list } = await ready(started);
    expect(await (await list()).text()).toContain('{"petId":1,"quantity":777,"status":"available"}');

    const second = start();
    expect(await second.exitCode).toBe(1);
    const address = /API +(\S+)\/v1/.exec(started.output())?.[1] ?? '';
    expect(second.output()).toBe(`npm start is already running at ${address} (process ${started.process.pid})\n`);
    expect((await list()).status).toBe(200);
    started.process.kill('SIGINT');
    expect(await started.exitCode).toBe(0);
  });

  it('prints another key when the one of before was revoked, and takes empty settings for none', async () => {
    rmSync(join(project, 'dist/main.js'));
    const unset = { DATABASE_URL: '', BOOTSTRAP_API_KEY: '' };
    const inventory = (...args: string[]) =>
      execFileSync(process.execPath, ['dev/inventory.ts', 'keys', ...args], {
        cwd: project,
        env: { ...process.env, ...unset },
        stdio: ['ignore', 'pipe', 'ignore'],
        encoding: 'utf8',
      });
    const [key] = JSON.parse(inventory('list', '--json')) as { id: string }[];
    inventory('revoke', key?.id ?? '');
    const started = start(unset);
    expect((await (await ready(started)).list()).status).toBe(200);
    started.process.kill('SIGTERM');
    expect(await started.exitCode).toBe(0);
  });

  it('ends when its database or its service is gone, and says so', async () => {
    const first = start();
    await ready(first);
    process.kill(postmaster(), 'SIGKILL');
    expect(await first.exitCode).toBe(1);
    expect(first.output()).toContain('The embedded PostgreSQL ended by itself');

    const second = start();
    await ready(second);
    const service = execFileSync('pgrep', ['-P', String(second.process.pid), '-f', 'dist/main.js'], {
      encoding: 'utf8',
    });
    process.kill(Number(service), 'SIGKILL');
    expect(await second.exitCode).toBe(137);
    expect(second.output()).toMatch(/\nThe service was ended by SIGKILL, from outside\.\n$/);
  });

  it('uses the database of DATABASE_URL, migrated and without demo stock or key, and reads .env', async () => {
    const database = await createDatabase({ migrated: false });
    const BOOTSTRAP_API_KEY = 'a-bootstrap-key-of-enough-characters';
    const settings = { DATABASE_URL: database.url, BOOTSTRAP_API_KEY, HOST: 'the.environment.counts.more' };
    const file = join(project, '.env');
    writeFileSync(
      file,
      Object.entries(settings)
        .map(([name, value]) => `${name}='${value}'\n`)
        .join(''),
    );
    onTestFinished(() => rmSync(file));
    const started = start();
    await vi.waitFor(() => expect(started.output()).toContain('Bearer $BOOTSTRAP_API_KEY'), 50_000);
    expect(started.output()).toContain('\n    . ./.env\n');
    const address = /\S+\/v1\/inventory\b/.exec(started.output())?.[0] ?? '';
    const answer = await fetch(address, { headers: { authorization: `Bearer ${BOOTSTRAP_API_KEY}` } });
    expect(await answer.text()).toBe('[]');
    expect(await applyMigrations(database.url)).toEqual([]);
    started.process.kill('SIGTERM');
    expect(await started.exitCode).toBe(0);
    await database.drop();
  });

  it('ends with one line when something is not as it should be', async () => {
    const occupant = createServer().listen(0, '127.0.0.1');
    await once(occupant, 'listening');
    const taken = String((occupant.address() as AddressInfo).port);
    for (const [settings, line] of [
      [{ PORT: taken }, `listen EADDRINUSE: address already in use 127.0.0.1:${taken}; set PORT to another`],
      [
        { HOST: '192.0.2.1' }, // of documentation, nobody's
        'listen EADDRNOTAVAIL: address not available 192.0.2.1; set HOST to another',
      ],
      [{ PORT: 'http' }, 'error: PORT must be an integer from 0 to 65535'],
      [
        { DATABASE_URL: 'postgresql://nobody:x@127.0.0.1:70000/nothing' },
        'error: DATABASE_URL must name a port up to 65535',
      ],
      [
        { DATABASE_URL: 'postgresql://nobody:x@127.0.0.1:1/nothing' },
        'error: the database cannot be reached: connect ECONNREFUSED 127.0.0.1:1; check DATABASE_URL',
      ],
    ] as const) {
      const started = start(settings);
      expect(await started.exitCode).toBe(1);
      expect(started.output()).toBe(`${line}\n`);
    }
    occupant.close();
  });

  it('ends with one line when its .data is damaged', async () => {
    const data = join(project, '.data');
    const [key, server] = [join(data, 'demo-api-key'), join(data, 'postgres')];
    const shown = async () => {
      const started = start();
      expect(await started.exitCode).toBe(1);
      return started.output();
    };
    writeFileSync(key, 'short');
    expect(await shown()).toBe(`${key} has fewer than 32 characters; remove it to get a new key\n`);
    renameSync(join(server, 'data'), join(project, 'lost'));
    expect(await shown()).toBe(
      `${server} has lost its folder "data"; put it back, or remove ${server} to start afresh\n`,
    );
    rmSync(data, { recursive: true });
    writeFileSync(data, '');
    expect(await shown()).toBe(
      `${data} is a file; npm start keeps its database in a folder of this name: remove or rename it\n`,
    );
    rmSync(data);
    symlinkSync(process.platform === 'darwin' ? '/System' : '/sys/kernel', data); // nobody may make a folder there
    expect(await shown()).toMatch(/^\S+\/\.data\/postgres\S* cannot be written: E.+\n$/);
  });
});
