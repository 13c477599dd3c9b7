import { once } from 'node:events';
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Logger } from '@nestjs/common';
import { escapeLiteral } from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished, vi } from 'vitest';
import { createApp } from '../src/app.ts';
import { applyMigrations } from '../src/migrations/migrations.ts';
import { readSettings } from '../src/settings.ts';
import { EXPORT_FAILED, failed, inventory } from './commands/inventory-command.ts';
import { createCertificate } from './support/certificate.ts';
import { createDatabase } from './support/database.ts';
import { HAS_POOLER, startPooler } from './support/pooler.ts';
import { type FaultyPostgres, startFaultyPostgres } from './support/postgres-server.ts';
import { ServiceProcess } from './support/service-process.ts';
import { startService } from './support/service.ts';
import { itemText, listText } from './support/stock.ts';

/** One command for each way to connect: by Prisma, by a connection of `pg`, and for the migrations. */
const EACH_LAYER = [['keys', 'list'], ['export'], ['migrate']];
const COMMANDS = [
  ...EACH_LAYER,
  ['import', 'prisma/demo-stock.csv', '--dry-run'],
  ['history', '1'],
  ['history', '--follow', '--after', '0'],
  ['history', '--verify'],
];

let postgres: FaultyPostgres;
let folder: string;
let authority: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'inventory-tls-'));
  postgres = await startFaultyPostgres();
  authority = join(folder, 'authority.pem');
  writeFileSync(authority, await postgres.enableTls());
  const { certificate, key } = createCertificate();
  writeFileSync(join(folder, 'other.pem'), certificate);
  writeFileSync(join(folder, 'key.pem'), key);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The DATABASE_URL with these parameters. The server's certificate is for `localhost`. */
function address(parameters: string, host = 'localhost'): string {
  const url = new URL(postgres.url);
  url.hostname = host;
  url.search = parameters.replaceAll('$', folder);
  return url.href;
}

/** Starts the built service, which need not become ready. */
async function startServe(databaseUrl: string, environment: NodeJS.ProcessEnv = {}): Promise<ServiceProcess> {
  const service = await ServiceProcess.onFreePort({ DATABASE_URL: databaseUrl, ...environment });
  service.start();
  return service;
}

const failedIn = ([command]: readonly string[], line: string) =>
  failed(line, command === 'export' ? EXPORT_FAILED : '');

async function expectConnects(databaseUrl: string, environment: NodeJS.ProcessEnv, layers = EACH_LAYER): Promise<void> {
  for (const args of layers) {
    const stderr = args[0] === 'migrate' ? 'the database is up to date\n' : '';
    expect(await inventory(databaseUrl, args, '', environment)).toMatchObject({ code: 0, stderr });
  }
}

/** The last message of the service about its readiness. */
const lastReadiness = ({ log }: ServiceProcess) => [...log.matchAll(/"msg":"((?:not )?ready.*?)"}$/gm)].at(-1)?.[1];

async function expectReadiness(service: ServiceProcess, message: string): Promise<void> {
  await vi.waitFor(() => expect(lastReadiness(service), service.log).toBe(message), 25_000);
}

describe.concurrent('the password of the database', () => {
  const password = 'a@b/c:d?e#f%41 "g+h&i=j';
  const withoutPassword = (user = 'clerk') => address('', '127.0.0.1').replace(/\/\/[^@]*@/, `//${user}@`);
  let file: string;

  beforeAll(async () => {
    file = join(folder, 'password');
    writeFileSync(file, `${password}\n`);
    await postgres.database.sql(`CREATE ROLE clerk SUPERUSER LOGIN PASSWORD ${escapeLiteral(password)}`);
  });

  it.each([
    ['percent-encoded in the URL', () => withoutPassword(`clerk:${encodeURIComponent(password)}`), () => ({})],
    ['from PGPASSWORD', withoutPassword, () => ({ PGPASSWORD: password })],
    ['from DATABASE_PASSWORD_FILE', withoutPassword, () => ({ DATABASE_PASSWORD_FILE: file })],
  ])('is taken %s by every kind of command', async (_, url, environment) => {
    await expectConnects(url(), environment());
  });

  it.for(['on', 'off'])(
    'may be changed in the role and in DATABASE_PASSWORD_FILE while the service runs with FAST=%s',
    async (FAST, { expect }) => {
      const role = `rotated_${FAST}`;
      const rotating = join(folder, role);
      const set = (text: string) => postgres.database.sql(`ALTER ROLE ${role} PASSWORD ${escapeLiteral(text)}`);
      await postgres.database.sql(`CREATE ROLE ${role} SUPERUSER LOGIN`);
      await set('first');
      writeFileSync(rotating, 'first\n');
      const [DATABASE_PASSWORD_FILE, BOOTSTRAP_API_KEY] = [rotating, 'a-bootstrap-key-of-enough-characters'];
      const settings = { DATABASE_PASSWORD_FILE, BOOTSTRAP_API_KEY, FAST, REQUEST_DEADLINE_MS: '1000' };
      const service = await startServe(withoutPassword(role), settings);
      await expectReadiness(service, 'ready');
      const headers = { authorization: `Bearer ${BOOTSTRAP_API_KEY}`, 'content-type': 'application/json' };
      const update = { method: 'PATCH', headers, body: '{"quantity": 1}' };
      const probe = async () => {
        await postgres.database.sql(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '${role}'`);
        const [ready, list, absent] = [
          await fetch(`${service.url}/health/ready`),
          await fetch(`${service.url}/v1/inventory`, { headers }),
          await fetch(`${service.url}/v1/inventory/-1`, update),
        ];
        return [ready.status, list.status, absent.status];
      };
      await set('second');
      await expect.poll(probe).toEqual([503, 503, 503]);
      writeFileSync(rotating, 'second\n');
      await expect.poll(probe).toEqual([200, 200, 404]);
      await expectConnects(withoutPassword(role), { DATABASE_PASSWORD_FILE });
      await service.terminate();
    },
  );

  it('is reported missing in one line by commands, readiness and requests, and the service leaks no connection', async () => {
    const line = 'the database wants a password; DATABASE_URL, its password file and PGPASSWORD have none';
    for (const args of EACH_LAYER) expect(await inventory(withoutPassword(), args)).toEqual(failedIn(args, line));
    const service = await startServe(withoutPassword());
    await expectReadiness(service, `not ready: ${line}`);
    const headers = { authorization: `Bearer ${'x'.repeat(40)}` };
    expect((await fetch(`${service.url}/v1/inventory`, { headers })).status).toBe(503);
    const logged = await service.line(({ status }) => status === 503);
    expect(logged).toMatchObject({ code: 'service_unavailable', err: { type: 'NotApplied', message: line } });
    expect(JSON.stringify(logged)).toContain('SASL');
    const opened = service.openDescriptors();
    await pause(2_000); // four attempts
    expect(service.openDescriptors()).toBeLessThan(opened + 3);
    await service.terminate();
  });
});

it.each(['on', 'off'])('commands, and the service with FAST=%s, use the schema of the address', async (FAST) => {
  const database = await createDatabase({ migrated: false });
  await database.sql('CREATE SCHEMA "Pet ""shop"""');
  const databaseUrl = `${database.url}?schema=Pet%20%22shop%22`;
  await applyMigrations(databaseUrl);
  const service = await startService({ databaseUrl, settings: { FAST } });
  await service.sql(`SET search_path = "Pet ""shop"""; INSERT INTO inventory_item VALUES (1, 1, 'sold')`);
  expect((await service.update(1, 2)).text).toBe(itemText(1, 2, 'sold'));
  expect((await service.list()).text).toBe(listText([1, 2, 'sold']));
  expect((await inventory(databaseUrl, ['history', '1'])).stdout).toContain('1 sold  2 sold');
});

describe('a Unix socket', () => {
  it('is reached by postgresql://user:password@/database?host=/folder, whatever the variables of libpq say', async () => {
    const sockets = mkdtempSync('/tmp/inventory-'); // the path of a socket has 107 bytes at most
    const server = createServer((client) => {
      const connection = connect(postgres.port, '127.0.0.1').on('error', () => client.destroy());
      client
        .on('error', () => connection.destroy())
        .pipe(connection)
        .pipe(client);
    }).listen(join(sockets, '.s.PGSQL.5432'));
    onTestFinished(() => {
      server.close();
      rmSync(sockets, { recursive: true, force: true });
    });
    await once(server, 'listening');
    const { password, pathname } = new URL(postgres.url);
    const plain = 'HOST HOSTADDR PORT DATABASE USER PASSWORD OPTIONS REPLICATION APPNAME CLIENT_ENCODING';
    const names = `${plain} SSLMODE SSLNEGOTIATION SSLROOTCERT CHANNELBINDING CONNECT_TIMEOUT`.split(' ');
    const nonsense = Object.fromEntries(names.map((name) => [`PG${name}`, 'nonsense']));
    await expectConnects(`postgresql://postgres:${password}@${pathname}?host=${sockets}&sslmode=disable`, nonsense);
  });
});

const noTls = (why: string) =>
  `no TLS with the database of DATABASE_URL: ${why}; check its host, sslmode, sslrootcert, sslcert and sslkey`;
const UNTRUSTED = noTls('unable to verify the first certificate');
const WRONG_HOST = noTls("Hostname/IP does not match certificate's altnames: IP: 127.0.0.1 is not in the cert's list");

describe('an engine that is not PostgreSQL', () => {
  async function databaseThatIs(version: string): Promise<string> {
    const database = await createDatabase();
    await database.sql('CREATE SCHEMA vendor');
    await database.sql(
      `CREATE FUNCTION vendor.version() RETURNS text LANGUAGE sql AS $$ SELECT ${escapeLiteral(version)} $$`,
    );
    await database.sql(
      `ALTER DATABASE ${new URL(database.url).pathname.slice(1)} SET search_path = vendor, pg_catalog, public`,
    );
    return database.url;
  }
  const unsupported = (version: string) =>
    `the database must be PostgreSQL 15 or newer, not another engine; it calls itself ${version}`;

  it.each(HAS_POOLER ? ['directly', 'behind a pooler'] : ['directly'])('is refused by commands, %s', async (how) => {
    const version = 'PostgreSQL 15.12-YB-2025.1.0.0-b168 on x86_64-pc-linux-gnu';
    const own = await databaseThatIs(version);
    const { url } = how === 'directly' ? { url: own } : await startPooler(own, 1);
    // The first one again: behind a pooler its session has served an earlier client.
    for (const args of [...EACH_LAYER, ...EACH_LAYER.slice(0, 1)])
      expect(await inventory(url, args)).toEqual(failedIn(args, unsupported(version)));
  });

  it('is refused by readiness', async () => {
    const service = await startServe(await databaseThatIs('PostgreSQL 14.19 on x86_64-pc-linux-gnu'));
    await expectReadiness(service, `not ready: ${unsupported('PostgreSQL 14.19 on x86_64-pc-linux-gnu')}`);
    expect((await fetch(`${service.url}/health/ready`)).status).toBe(503);
    await service.terminate();
  });
});

describe('TLS with PostgreSQL', () => {
  it.concurrent.each([
    ['sslmode=require', 'localhost', EACH_LAYER.slice(0, 1)],
    ['sslmode=require&sslrootcert=$/authority.pem', '127.0.0.1', EACH_LAYER.slice(1, 2)],
    ['sslmode=verify-ca&sslrootcert=$/authority.pem', '127.0.0.1', EACH_LAYER.slice(2)],
    ['sslmode=verify-full&sslrootcert=$/authority.pem', 'localhost', EACH_LAYER],
  ])('works with %s on %s for %j', async (parameters, host, layers) => {
    await expectConnects(address(parameters, host), {}, layers);
  });

  it.concurrent.each([
    ['sslmode=verify-full&sslrootcert=$/other.pem', 'localhost', UNTRUSTED, EACH_LAYER.slice(0, 1)],
    ['sslmode=require&sslrootcert=$/other.pem', 'localhost', UNTRUSTED, EACH_LAYER.slice(1, 2)],
    ['sslmode=verify-full', 'localhost', UNTRUSTED, EACH_LAYER.slice(2)],
    ['sslmode=verify-full&sslrootcert=$/authority.pem', '127.0.0.1', WRONG_HOST, COMMANDS],
  ])('fails with %s on %s, and every command prints the same line', async (parameters, host, line, commands) => {
    const url = address(parameters, host);
    for (const args of commands) {
      expect(await inventory(url, args)).toEqual(failedIn(args, line));
    }
  });

  it('fails with an unknown authority, whatever NODE_TLS_REJECT_UNAUTHORIZED says', async () => {
    const url = address('sslmode=verify-full&sslrootcert=$/other.pem');
    const { code, stderr } = await inventory(url, ['keys', 'list'], '', { NODE_TLS_REJECT_UNAUTHORIZED: '0' });
    expect({ code, stderr }).toEqual({ code: 1, stderr: expect.stringContaining(UNTRUSTED) as string });
  });

  it.skipIf(inject('postgresMajor') < 17)('works with sslnegotiation=direct', async () => {
    const parameters = 'sslmode=verify-full&sslrootcert=$/authority.pem';
    await expectConnects(address(`${parameters}&sslnegotiation=direct`), {});
  });

  it('stops the service at its start when sslrootcert cannot be read', async () => {
    const url = address('sslmode=verify-full&sslrootcert=$/missing.pem');
    const service = await startServe(url, { PORT: 'x' });
    expect((await service.ended).code).toBe(1);
    expect(service.log.split('\n').slice(0, 2)).toEqual([
      'inventory: DATABASE_URL has an sslrootcert that cannot be read: no such file or directory',
      'inventory: PORT must be an integer from 0 to 65535, but is "x"',
    ]);
  });

  it('fails in one line when sslrootcert vanishes during the start', async () => {
    const vanishing = join(folder, 'vanishing.pem');
    copyFileSync(authority, vanishing);
    const settings = readSettings({ DATABASE_URL: address('sslmode=verify-full&sslrootcert=$/vanishing.pem') });
    rmSync(vanishing);
    const logged = vi.fn();
    onTestFinished(() => Logger.flush()); // another service of this process would log these lines
    Logger.overrideLogger({ log: logged, warn: logged, error: logged });
    await expect(createApp(settings)).rejects.toThrow(/^has an sslrootcert that cannot be read: no such file[^\n]+$/);
    expect(logged).not.toHaveBeenCalled(); // src/serve.ts prints that line
  });

  it('reads a renewed sslrootcert for the next connection, and keeps the old one while the file is empty or missing', async () => {
    const rotating = join(folder, 'rotating.pem');
    copyFileSync(authority, rotating);
    const service = await startServe(address('sslmode=verify-full&sslrootcert=$/rotating.pem'));
    await expectReadiness(service, 'ready');
    expect(service.log).not.toContain('arning');
    const probe = async () => {
      await postgres.database.cutSessions();
      return (await fetch(`${service.url}/health/ready`)).status;
    };
    for (const replace of [() => writeFileSync(rotating, ''), () => rmSync(rotating)]) {
      replace();
      await expect.poll(probe).toBe(200);
    }

    const renewed = await postgres.enableTls();
    onTestFinished(() => writeFileSync(authority, renewed));
    const probeAndLog = async () => [await probe(), lastReadiness(service)];
    await expect.poll(probeAndLog).toEqual([503, `not ready: ${noTls('certificate signature failure')}`]);
    writeFileSync(rotating, renewed);
    await expect.poll(probe).toBe(200);
    expect(service.log).not.toContain('uncaught');
    expect(await service.terminate()).toBe(0);
  });

  it.each(['scram-sha-256', 'md5', 'password', 'trust'])(
    'with channel_binding=require and %s in pg_hba.conf, connects by SCRAM-SHA-256-PLUS or not at all',
    async (method) => {
      await postgres.database.sql('DROP ROLE IF EXISTS bound');
      await postgres.database.sql(
        `DO $$ BEGIN ${method === 'md5' ? `SET LOCAL password_encryption = 'md5';` : ''}
         CREATE ROLE bound SUPERUSER LOGIN PASSWORD 'secret'; END $$`,
      );
      onTestFinished(async () => {
        await postgres.wantTls('off');
        await postgres.database.setSystem('SET ssl = on');
      });
      await postgres.wantTls('hostssl', method);
      const url = new URL(address('sslmode=require'));
      [url.username, url.password] = ['bound', 'secret'];
      await expectConnects(url.href, {}); // the control
      for (const binding of ['prefer', 'disable']) await expectConnects(`${url.href}&channel_binding=${binding}`, {});
      if (method === 'scram-sha-256') return expectConnects(`${url.href}&channel_binding=require`, {});
      const line =
        'the database did not use SCRAM-SHA-256-PLUS, which channel_binding=require demands; let pg_hba.conf and the role use scram-sha-256, connect without a pooler, or remove channel_binding';
      for (const args of EACH_LAYER)
        expect(await inventory(`${url.href}&channel_binding=require`, args)).toEqual(failedIn(args, line));
    },
  );

  it('is reported as missing when the server demands it, and as unsupported when the server has none', async () => {
    onTestFinished(async () => {
      await postgres.wantTls('off');
      await postgres.database.setSystem('SET ssl = on');
    });
    await postgres.wantTls('hostssl');
    const wanted = await inventory(postgres.url, ['keys', 'list']);
    expect(wanted.stderr).toMatch(/^error: the database refuses this connection: no pg_hba.+ no encryption; check/);
    await postgres.wantTls('off');
    for (const args of EACH_LAYER) {
      const { stderr } = await inventory(address('sslmode=require'), args);
      expect(stderr).toBe(`error: ${noTls('The server does not support SSL connections')}\n`);
    }
  });
});
