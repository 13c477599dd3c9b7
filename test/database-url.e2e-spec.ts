import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { escapeLiteral } from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it, onTestFinished, vi } from 'vitest';
import { readSettings } from '../src/settings.ts';
import { EXPORT_FAILED, failed, inventory } from './commands/inventory-command.ts';
import { createDatabase } from './support/database.ts';
import { HAS_POOLER, startPooler } from './support/pooler.ts';
import { type FaultyPostgres, startFaultyPostgres } from './support/postgres-server.ts';
import { ServiceProcess } from './support/service-process.ts';
import { startService } from './support/service.ts';

/** One command for each way to connect: by Prisma, by a connection of `pg`, and for the migrations. */
const EACH_LAYER = [['keys', 'list'], ['export'], ['migrate']];

let postgres: FaultyPostgres;
let folder: string;
let authority: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'inventory-tls-'));
  postgres = await startFaultyPostgres();
  authority = join(folder, 'authority.pem');
  writeFileSync(authority, await postgres.enableTls());
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The DATABASE_URL with these parameters. The server's certificate is for `localhost`. */
function address(parameters: string, host = 'localhost'): string {
  const url = new URL(postgres.url);
  url.hostname = host;
  url.search = parameters.replaceAll('$', folder);
  return url.href;
}

async function expectConnects(databaseUrl: string, environment: NodeJS.ProcessEnv = {}): Promise<void> {
  for (const args of EACH_LAYER) {
    const stderr = args[0] === 'migrate' ? 'the database is up to date\n' : '';
    expect(await inventory(databaseUrl, args, '', environment)).toMatchObject({ code: 0, stderr });
  }
}

async function expectFails(databaseUrl: string, line: string): Promise<void> {
  for (const args of EACH_LAYER)
    expect(await inventory(databaseUrl, args)).toEqual(failed(line, args[0] === 'export' ? EXPORT_FAILED : ''));
}

describe('the password of the database', () => {
  const withoutPassword = (user: string) => address('', '127.0.0.1').replace(/\/\/[^@]*@/, `//${user}@`);

  it.each(['on', 'off'])(
    'may be changed in the role and in DATABASE_PASSWORD_FILE while the service runs with FAST=%s',
    async (FAST) => {
      const role = `rotated_${FAST}`;
      const file = join(folder, role);
      const set = (text: string) => postgres.database.sql(`ALTER ROLE ${role} PASSWORD ${escapeLiteral(text)}`);
      await postgres.database.sql(`CREATE ROLE ${role} SUPERUSER LOGIN`);
      await set('first');
      writeFileSync(file, 'first\n');
      vi.stubEnv('PGPASSWORD', 'first'); // of the test's own session; for the service, the file counts
      onTestFinished(() => void vi.unstubAllEnvs());
      const settings = { DATABASE_PASSWORD_FILE: file, FAST, REQUEST_DEADLINE_MS: '1000' };
      const service = await startService({ databaseUrl: withoutPassword(role), settings });
      const probe = async () => {
        await postgres.database.sql(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '${role}'`);
        const ready = await fetch(`${service.url}/health/ready`);
        return [ready.status, (await service.list()).status, (await service.update(-1, 1)).status];
      };
      await set('second');
      await expect.poll(probe).toEqual([503, 503, 503]);
      writeFileSync(file, 'second\n');
      await expect.poll(probe).toEqual([200, 200, 404]);
      await expectConnects(withoutPassword(role), { DATABASE_PASSWORD_FILE: file });
    },
  );

  it('is reported missing in one line by commands, readiness and requests, and the service leaks no connection', async () => {
    const line = 'the database wants a password; DATABASE_URL, its password file and PGPASSWORD have none';
    const DATABASE_URL = withoutPassword('postgres');
    await expectFails(DATABASE_URL, line);
    const service = await ServiceProcess.onFreePort({ DATABASE_URL, REQUEST_DEADLINE_MS: '1000' });
    service.start();
    await service.line(({ msg }) => msg === `not ready: ${line}`);
    const headers = { authorization: `Bearer ${'x'.repeat(40)}` };
    const list = async () => expect((await fetch(`${service.url}/v1/inventory`, { headers })).status).toBe(503);
    await list();
    const logged = await service.line(({ status }) => status === 503);
    expect(logged).toMatchObject({ code: 'service_unavailable', err: { type: 'NotApplied', message: line } });
    expect(JSON.stringify(logged)).toContain('SASL');
    const opened = service.openDescriptors();
    for (let n = 0; n < 2; n++) await list(); // each tries again and again
    expect(service.openDescriptors()).toBeLessThan(opened + 3);
  });
});

it.each(HAS_POOLER ? ['directly', 'behind a pooler'] : ['directly'])(
  'an engine that is not PostgreSQL is refused, %s',
  async (how) => {
    const version = 'PostgreSQL 15.12-YB-2025.1.0.0-b168 on x86_64-pc-linux-gnu';
    const database = await createDatabase();
    await database.sql(`CREATE SCHEMA vendor;
      CREATE FUNCTION vendor.version() RETURNS text LANGUAGE sql AS $$ SELECT ${escapeLiteral(version)} $$;
      ALTER DATABASE ${new URL(database.url).pathname.slice(1)} SET search_path = vendor, pg_catalog, public`);
    const { url } = how === 'directly' ? database : await startPooler(database.url, 1);
    const line = `the database must be PostgreSQL 15 or newer, not another engine; it calls itself ${version}`;
    await expectFails(url, line);
    await expectFails(url, line); // behind a pooler, its session has served an earlier client
  },
);

describe('TLS with PostgreSQL', () => {
  const VERIFIED = 'sslmode=verify-full&sslrootcert=$/authority.pem';

  it.each(inject('postgresMajor') < 17 ? [''] : ['', '&sslnegotiation=direct'])('works with %j', (more) =>
    expectConnects(address(`${VERIFIED}${more}`)),
  );

  it('fails where the certificate is for another host', () =>
    expectFails(
      address(VERIFIED, '127.0.0.1'),
      `no TLS with the database of DATABASE_URL: Hostname/IP does not match certificate's altnames: IP: 127.0.0.1 is not in the cert's list; check its host, sslmode, sslrootcert, sslcert and sslkey`,
    ));

  it('stops the service at its start when sslrootcert cannot be read', () => {
    const DATABASE_URL = address('sslmode=verify-full&sslrootcert=$/missing.pem');
    const message = /^DATABASE_URL has an sslrootcert that cannot be read: no such file or directory\nPORT must be /;
    expect(() => readSettings({ DATABASE_URL, PORT: 'x' })).toThrow(message);
  });

  it('is in every session, and reads a renewed sslrootcert for the next one', async () => {
    const rotating = join(folder, 'rotating.pem');
    copyFileSync(authority, rotating);
    const service = await startService({ databaseUrl: address('sslmode=verify-full&sslrootcert=$/rotating.pem') });
    const ofService = `SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name LIKE 'inventory%'`;
    expect(await postgres.database.sql(ofService)).toEqual([{ ssl: true }]);
    const probe = async () => {
      await postgres.database.cutSessions();
      return (await fetch(`${service.url}/health/ready`)).status;
    };
    const renewed = await postgres.enableTls();
    onTestFinished(() => writeFileSync(authority, renewed));
    await expect.poll(probe).toBe(503);
    writeFileSync(rotating, renewed);
    await expect.poll(probe).toBe(200);
  });

  it('proves itself by SCRAM-SHA-256-PLUS with channel_binding=require', () =>
    expectConnects(address(`${VERIFIED}&channel_binding=require`)));
});
