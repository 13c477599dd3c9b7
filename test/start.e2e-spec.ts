import { execFileSync, spawn, spawnSync, type SpawnOptions } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, cpSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { endWithUs } from '../dev/child.ts';
import { isAlive, runningPostgres } from '../dev/embedded-postgres.ts';
import { serverAccount } from '../dev/postgres-binaries.ts';
import { inPlainWords } from '../dev/project-database.ts';
import { applyMigrations } from '../src/migrations/migrations.ts';
import { createDatabase, Database } from './support/database.ts';
import { ServiceProcess } from './support/service-process.ts';
import { itemText } from './support/stock.ts';

const sources = ['src', 'dev', 'prisma', 'nest-cli.json', 'package-lock.json', 'package.json', 'prisma.config.ts'];
const settingNames = 'docker-compose.yml';
const compilerSettings = ['tsconfig.build.json', 'tsconfig.json'];

const printedCommands = new RegExp(
  [
    String.raw`curl -H "Authorization: (?<credential>[^"]+)" (?<list>\S+)\n[^]+`,
    String.raw`curl -X PATCH -H "Authorization: \k<credential>" -H "Content-Type: application/json" \\\n`,
    String.raw` +-d '(?<body>[^']+)' (?<update>\S+)\n`,
  ].join(''),
);

describe('npm start', { timeout: 120_000 }, () => {
  let project: string;

  // A copy is like a fresh clone that is built: the developer's own store and build stay as they are.
  // The folder has a name that a URL would encode.
  beforeEach(() => {
    project = mkdtempSync(join(tmpdir(), "inventory at Zoë's "));
    onTestFinished(() => rmSync(project, { recursive: true, force: true }));
    for (const part of [...sources, ...compilerSettings, settingNames, 'dist'])
      cpSync(part, join(project, part), { recursive: true, preserveTimestamps: true });
    symlinkSync(resolve('node_modules'), join(project, 'node_modules'));
  });

  function start(settings: NodeJS.ProcessEnv = {}, account: SpawnOptions = {}) {
    const { PATH, HOME, NODE_COMPILE_CACHE } = process.env;
    const env = { PATH, HOME, NODE_COMPILE_CACHE, PORT: '0', HOST: '127.0.0.1', ...settings };
    const options = { ...account, cwd: project, detached: true, env };
    const child = spawn(process.execPath, ['dev/start.ts'], { ...options, stdio: 'pipe' });
    endWithUs(child, 'KILL');
    onTestFinished(() => void child.kill('SIGKILL')); // its children end with it
    let output = '';
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (text: Buffer) => (output += text.toString()));
    const exitCode = once(child, 'close').then(() => child.exitCode);
    return { process: child, output: () => output, exitCode };
  }

  /** Starts what must end with one line. */
  async function refusal(settings: NodeJS.ProcessEnv = {}, account: SpawnOptions = {}): Promise<string> {
    const started = start(settings, account);
    expect(await started.exitCode).toBe(1);
    return started.output();
  }

  /** Waits for the banner. @returns its two commands */
  async function ready(started: ReturnType<typeof start>) {
    const printed = await vi.waitFor(
      () => printedCommands.exec(started.output())?.groups ?? Promise.reject(new Error(started.output())),
      { timeout: 110_000, interval: 50 },
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

  // Root may write everywhere, so PostgreSQL's account runs this test then.
  const canRead = spawnSync('test', ['-r', resolve('node_modules/pg')], { ...serverAccount }).status === 0;
  it.runIf(canRead)('ends with one line in a folder that is read-only', async () => {
    for (const part of ['dist', 'src/generated']) rmSync(join(project, part), { recursive: true });
    chmodSync(project, 0o555);
    onTestFinished(() => chmodSync(project, 0o755));
    const line = `${project} is read-only for this user; the first build writes to it\n`;
    expect(await refusal({}, { ...serverAccount })).toBe(line);
  });

  // One test, because each new store costs an initdb.
  it('serves the demo stock by commands that work, reports a killed PostgreSQL or service, keeps an acknowledged update, makes a new key for a revoked one, and refuses to start twice', async () => {
    // An empty setting counts as unset.
    const unset = { DATABASE_URL: '', BOOTSTRAP_API_KEY: '', PGSSLNEGOTIATION: 'direct', PGCHANNELBINDING: 'require' };
    const first = start(unset);
    const { list, update } = await ready(first);
    const [, docs = ''] = /Swagger UI {2}(http.*)\/docs\n/.exec(first.output()) ?? [];
    // Its decorators see what another compiler made of the types.
    expect(await (await fetch(`${docs}/openapi.json`)).text()).toBe(readFileSync('openapi.json', 'utf8'));

    const stock = await (await list()).text();
    const pets = stock.matchAll(/"petId":(-?\d+),"quantity":(\d+),"status":"(\w+)"/g);
    const demo = readFileSync('prisma/demo-stock.csv', 'utf8').trim().split('\n').slice(1);
    expect(Array.from(pets, ([, ...columns]) => columns.join())).toEqual(demo);
    expect(new Set(demo.map((line) => line.split(',')[2]))).toEqual(new Set(['available', 'pending', 'sold']));
    expect(await (await update()).text()).toBe(itemText(1, 5));
    expect(statSync(join(project, '.data/demo-api-key')).mode & 0o777).toBe(0o600);

    expect((await update('{"quantity": 777}')).status).toBe(200);
    const url = runningPostgres(join(project, '.data/postgres'))?.replace(/postgres$/, 'inventory') ?? '';
    await new Database(url).sql('UPDATE api_key SET revoked_at = now()');
    const options = { cwd: project, env: { ...process.env, ...unset }, encoding: 'utf8' } as const;
    const command = spawnSync(process.execPath, ['dev/inventory.ts', 'keys', 'list', '--json'], options);
    expect(JSON.parse(command.stdout)).toMatchObject([{ name: 'bootstrap', state: 'revoked' }]);
    expect(command.stderr).toBe('This works on the demo database in .data/. Set DATABASE_URL for another one.\n');
    process.kill(postmaster(), 'SIGKILL');
    expect(await first.exitCode).toBe(1);
    expect(first.output()).toContain('The embedded PostgreSQL ended by itself');

    const started = start();
    const { list: listAgain } = await ready(started);
    expect(await (await listAgain()).text()).toContain(itemText(1, 777));
    const address = /API +(\S+)\/v1/.exec(started.output())?.[1] ?? '';
    expect(await refusal()).toBe(`npm start is already running at ${address} (process ${started.process.pid})\n`);
    expect((await listAgain()).status).toBe(200);
    const pid = postmaster();
    const service = execFileSync('pgrep', ['-P', String(started.process.pid), '-f', 'dist/main.js']);
    process.kill(Number(service), 'SIGKILL');
    expect(await started.exitCode).toBe(137);
    expect(started.output()).toMatch(/\nThe service was ended by SIGKILL, from outside\.\n$/);
    expect(isAlive(pid)).toBe(false);
  });

  it('reads .env, and migrates the database of DATABASE_URL without adding demo stock or a key', async () => {
    const database = await createDatabase({ migrated: false });
    const BOOTSTRAP_API_KEY = 'a-bootstrap-key-of-enough-characters';
    const DATABASE_PASSWORD_FILE = join(project, 'password');
    const { password, href } = new URL(database.url);
    writeFileSync(DATABASE_PASSWORD_FILE, decodeURIComponent(password));
    const DATABASE_URL = href.replace(`:${password}@`, '@');
    const settings = { DATABASE_URL, BOOTSTRAP_API_KEY, DOCS: 'off', HOST: 'the.environment.counts.more' };
    const lines = Object.entries(settings).map(([name, value]) => `${name}='${value}'\n`);
    const others = `DATABASE_POOLSIZE=9\nBALANCER_PORT=8080\nPGPASSWORD=x\nPGHOST=x\nCOMPOSE_PROJECT_NAME=x\n`;
    writeFileSync(join(project, '.env'), lines.join('') + others);
    // Nothing listens there: the project asks its own address without a proxy.
    const proxy = {
      NODE_USE_ENV_PROXY: '1',
      HTTP_PROXY: 'http://127.0.0.1:9',
      NO_PROXY: '',
      http_proxy: 'http://127.0.0.1:9',
    };
    const started = start({ DATABASE_PASSWORD_FILE, ...proxy });
    await vi.waitFor(() => expect(started.output()).toContain('Bearer $BOOTSTRAP_API_KEY'), 110_000);
    expect(started.output()).toContain("\n    BOOTSTRAP_API_KEY='…'\n");
    expect(started.output()).not.toContain('/docs');
    expect(started.output().match(/curl --noproxy '\*' -(H|X PATCH)/g)).toHaveLength(2);
    const list = /\S+\/v1\/inventory\b/.exec(started.output())?.[0] ?? '';
    const answer = await fetch(list, { headers: { authorization: `Bearer ${BOOTSTRAP_API_KEY}` } });
    expect(await answer.text()).toBe('[]');
    expect(await applyMigrations(database.url)).toEqual([]);
    started.process.kill('SIGTERM');
    expect(await started.exitCode).toBe(0);
    const warnings = started.output().match(/^\.env.+|(?<="level":"warn",.*"msg":")[^"]+/gm);
    const unknown = (name: string) => `.env: neither the service nor docker-compose.yml knows ${name}`;
    expect(warnings).toEqual(['DATABASE_POOLSIZE', 'PGHOST'].map(unknown));
  });

  it('ends with one line when the port is taken, as the service does', async () => {
    const { url: DATABASE_URL } = await createDatabase();
    const occupant = createServer().listen(0, '127.0.0.1');
    onTestFinished(() => void occupant.close());
    await once(occupant, 'listening');
    const PORT = String((occupant.address() as AddressInfo).port);
    const line = `listen EADDRINUSE: address already in use 127.0.0.1:${PORT}; set PORT`;
    expect(await refusal({ DATABASE_URL, PORT })).toBe(`${line} to another\n`);
    const service = await ServiceProcess.onFreePort({ DATABASE_URL, PORT });
    service.start();
    expect((await service.ended).code).toBe(1);
    expect(service.log).toBe(`inventory: ${line}, or HOST, to another\n`);
  });

  it('ends with one line when .env is not understood', async () => {
    writeFileSync(join(project, '.env'), 'PORT 4000\nDOCS=on\nHOST="x\n');
    expect(await refusal()).toMatch(/^\.env, line 1, 3: write NAME=value, .+\n$/);
  });

  it('names the part of .data that cannot be used', () => {
    const path = resolve('.data/postgres');
    const error = Object.assign(new Error('EACCES: permission denied'), { syscall: 'mkdir', path });
    expect(inPlainWords(error)).toBe(`${path} cannot be used: EACCES: permission denied`);
  });
});
