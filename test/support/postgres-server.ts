import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { appendFileSync, chownSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { isAlive, startPostgres, type EmbeddedPostgres, type PostgresOptions } from '../../dev/embedded-postgres.ts';
import { serverAccount } from '../../dev/postgres-binaries.ts';
import { applyMigrations } from '../../src/database/migrations.ts';
import { createCertificate, type Certificate } from './certificate.ts';
import { Database } from './database.ts';
import { atTestEnd } from './test-end.ts';

const wantsTls = process.env['TEST_DATABASE_TLS'] === 'verify-full';

/**
 * Starts a server for tests, as `startPostgres` does. With TEST_DATABASE_TLS=verify-full it takes nothing but TLS, by a
 * certificate for `localhost` of an authority of its own, and its address asks for that.
 */
export async function startTestServer(folder: string, options: PostgresOptions): Promise<EmbeddedPostgres> {
  let server = await startPostgres(folder, options);
  if (!wantsTls) return server;
  const authorityFile = join(folder, 'authority.pem');
  if (!existsSync(authorityFile)) {
    await server.stop();
    writeFileSync(authorityFile, installNewCertificate(folder));
    writeFileSync(join(folder, 'data/postgresql.auto.conf'), 'ssl = on\n');
    const rules = ['all', 'replication'].map((database) => `hostssl ${database} all 127.0.0.1/32 scram-sha-256\n`);
    writeFileSync(join(folder, 'data/pg_hba.conf'), rules.join(''));
    server = await startPostgres(folder, options);
  }
  const url = new URL(server.url);
  url.hostname = 'localhost';
  url.search = `?sslmode=verify-full&sslrootcert=${authorityFile}`;
  return { ...server, url: url.href };
}

/** Puts it where the server of the folder looks for it at its start and when it is told to reload. */
function installCertificate(folder: string, { certificate, key }: Certificate): void {
  const files = { 'server.crt': certificate, 'server.key': key };
  for (const [name, text] of Object.entries(files)) {
    const file = join(folder, 'data', name);
    writeFileSync(file, text, { mode: 0o600 });
    giveToServer(file);
  }
}

/** @returns the certificate of its authority, which is new, too */
function installNewCertificate(folder: string): string {
  const authority = createCertificate({ name: 'the authority of a test' });
  installCertificate(folder, createCertificate({ issuer: authority }));
  return authority.certificate;
}

function giveToServer(file: string): void {
  if (serverAccount) chownSync(file, serverAccount.uid, serverAccount.gid);
}

export type FaultyPostgres = Awaited<ReturnType<typeof startFaultyPostgres>>;

/**
 * A PostgreSQL server of a test's own with a migrated, empty store, durable like a real one, to be hurt. It takes about a
 * second. Started in a test it does not outlive that; started in `beforeAll`, `remove` it in `afterAll`.
 *
 * @param start `startPostgres`, for a server that knows nothing of TLS whatever TEST_DATABASE_TLS says
 */
export async function startFaultyPostgres(start = startTestServer) {
  const folder = join(tmpdir(), `inventory-fault-${randomUUID()}`);
  let server = await start(folder, { throwaway: true });
  const { url, port } = server;
  const database = new Database(url);
  await applyMigrations(url);

  function signal(name: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): void {
    for (const pid of [server.pid, ...childrenOf(server.pid)]) process.kill(pid, name);
  }
  /** SIGKILL to all its processes at once, as a power cut would. */
  async function crash(): Promise<void> {
    signal('SIGKILL');
    const waiting = setInterval(() => undefined, 1_000); // the server itself does not keep this process running
    await server.ended;
    clearInterval(waiting);
  }
  /** By a signal: it may let nobody in at the moment. It reads its files before it takes another connection. */
  async function reload(): Promise<void> {
    const reloads = () => readFileSync(join(folder, 'log'), 'utf8').split('received SIGHUP').length;
    const before = reloads();
    process.kill(server.pid, 'SIGHUP');
    while (reloads() === before) await pause(10);
  }
  async function remove(): Promise<void> {
    await crash().catch(() => undefined); // it may be down already
    rmSync(folder, { recursive: true, force: true });
  }
  await atTestEnd(remove);
  return {
    /** For DATABASE_URL. The same through every crash and restart. */
    url,
    port,
    /** Its owner is the account that the server runs as. */
    dataFolder: join(folder, 'data'),
    /** False from its end, wanted or not, to `restart`. */
    get isRunning(): boolean {
      return isAlive(server.pid);
    },
    /** The store, past the service. */
    database,
    crash,
    /** An orderly shutdown that cuts the sessions. */
    stop: () => server.stop(),
    /** Starts it again after `crash` or `stop`, on the same port and data. */
    async restart(): Promise<void> {
      server = await start(folder, { throwaway: true, port });
    },
    /** From here to `thaw` it answers nothing, though the kernel still accepts connections for it. */
    freeze: () => signal('SIGSTOP'),
    thaw: () => signal('SIGCONT'),
    /** Lets clients speak TLS with it, by a certificate for `localhost` of a new authority. @returns the authority's certificate */
    async enableTls(): Promise<string> {
      const authority = installNewCertificate(folder);
      await database.setSystem('SET ssl = on');
      return authority;
    },
    /** Gives new connections this certificate from now on, once TLS is enabled. */
    async useCertificate(certificate: Certificate): Promise<void> {
      installCertificate(folder, certificate);
      await reload();
    },
    /** Ends TLS again, or wants it of everybody. */
    async wantTls(wanted: 'off' | 'hostssl'): Promise<void> {
      const type = wanted === 'off' ? 'host' : wanted;
      writeFileSync(join(folder, 'data/pg_hba.conf'), `${type} all all 127.0.0.1/32 scram-sha-256\n`);
      if (wanted === 'off') writeFileSync(join(folder, 'data/postgresql.auto.conf'), 'ssl = off\n');
      await reload();
    },
    /** Ends it, whatever its state, and removes its data. */
    remove,
  };
}

function childrenOf(pid: number): number[] {
  const list =
    process.platform === 'linux'
      ? readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
      : execFileSync('pgrep', ['-P', String(pid)], { encoding: 'utf8' });
  return list.trim().split(/\s+/).map(Number);
}

/**
 * Starts a primary with a migrated, empty store and a standby that streams from it, in about three seconds. A test ends
 * them when it ends; `beforeAll` needs `remove` in `afterAll`.
 */
export async function startReplicated() {
  const folder = join(tmpdir(), `inventory-replicated-${randomUUID()}`);
  const servers: EmbeddedPostgres[] = [];
  async function start(name: string): Promise<EmbeddedPostgres> {
    const server = await startTestServer(join(folder, name), { throwaway: true });
    servers.push(server);
    return server;
  }
  async function remove(): Promise<void> {
    await Promise.all(servers.splice(0).map((server) => server.stop()));
    rmSync(folder, { recursive: true, force: true });
  }
  await atTestEnd(remove);
  mkdirSync(folder, { mode: 0o755 });
  const first = await start('primary');
  await applyMigrations(first.url);
  await first.stop();

  // A copy of a cluster that was shut down in order is a base backup.
  execFileSync('cp', ['-a', join(folder, 'primary'), join(folder, 'standby')]);
  const primary = await start('primary');
  const standbyData = join(folder, 'standby/data');
  writeFileSync(join(standbyData, 'standby.signal'), '');
  giveToServer(join(standbyData, 'standby.signal'));
  appendFileSync(join(standbyData, 'postgresql.auto.conf'), `primary_conninfo = '${primary.url}'\n`);
  const standby = await start('standby');
  return { primary: new Database(primary.url), standby: new Database(standby.url), remove };
}
