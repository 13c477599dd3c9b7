import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { appendFileSync, chownSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { isAlive, startPostgres, type EmbeddedPostgres, type PostgresOptions } from '../../dev/embedded-postgres.ts';
import { serverAccount } from '../../dev/postgres-binaries.ts';
import { applyMigrations } from '../../src/migrations/migrations.ts';
import { createCertificate } from './certificate.ts';
import { Database } from './database.ts';
import { atTestEnd } from './test-end.ts';

/**
 * Starts a server with a migrated, empty store. In a run of Vitest it begins as a copy of the run's stopped server in
 * TEST_CLUSTER, which saves a second.
 */
export async function startStore(folder: string, options: PostgresOptions = {}): Promise<EmbeddedPostgres> {
  const cluster = process.env['TEST_CLUSTER'];
  if (cluster !== undefined) execFileSync('cp', ['-a', cluster, folder]);
  const server = await startPostgres(folder, { throwaway: true, ...options });
  await applyMigrations(server.url);
  return server;
}

/** Puts a certificate where the server reads it at its start and at a reload. @returns that of its new authority */
function installNewCertificate(folder: string): string {
  const authority = createCertificate({ name: 'the authority of a test' });
  const { certificate, key } = createCertificate({ issuer: authority });
  for (const [name, text] of Object.entries({ 'server.crt': certificate, 'server.key': key })) {
    const file = join(folder, 'data', name);
    writeFileSync(file, text, { mode: 0o600 });
    giveToServer(file);
  }
  return authority.certificate;
}

function giveToServer(file: string): void {
  if (serverAccount) chownSync(file, serverAccount.uid, serverAccount.gid);
}

export type FaultyPostgres = Awaited<ReturnType<typeof startFaultyPostgres>>;

/**
 * Starts a PostgreSQL server that a test may damage, in about a second: a migrated, empty store, as durable as in
 * production. It ends with the test, or with the file whose hook starts it.
 */
export async function startFaultyPostgres() {
  const folder = join(tmpdir(), `inventory-fault-${randomUUID()}`);
  let server = await startStore(folder);
  const { url, port } = server;
  const database = new Database(url);

  function signal(name: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): void {
    for (const pid of [server.pid, ...childrenOf(server.pid)]) {
      try {
        process.kill(pid, name);
      } catch {} // a session may have ended since
    }
  }
  /** Sends SIGKILL to all its processes at once, like a power cut. */
  async function crash(): Promise<void> {
    signal('SIGKILL');
    const waiting = setInterval(() => undefined, 1_000); // the child process alone does not keep this process running
    await server.ended;
    clearInterval(waiting);
  }
  /** A server that is killed and does not start again would leave a segment of shared memory behind. */
  async function remove(): Promise<void> {
    if (isAlive(server.pid)) {
      signal('SIGCONT');
      await server.stop();
    }
    rmSync(folder, { recursive: true, force: true });
  }
  await atTestEnd(remove);
  return {
    /** For DATABASE_URL. The same through every crash and restart. */
    url,
    port,
    /** The owner is the account of the server. */
    dataFolder: join(folder, 'data'),
    /** False after `crash`, `stop` or a failure, until `restart`. */
    get isRunning(): boolean {
      return isAlive(server.pid);
    },
    /** Reads and writes the store without the service. */
    database,
    crash,
    /** An orderly shutdown that cuts the sessions. */
    stop: () => server.stop(),
    /** Starts the server again after `crash` or `stop`, with the same port and data. */
    async restart(): Promise<void> {
      server = await startPostgres(folder, { throwaway: true, port });
    },
    /** Until `thaw`, the server answers nothing. The kernel still accepts connections. */
    freeze(): void {
      signal('SIGSTOP');
      void atTestEnd(() => signal('SIGCONT'));
    },
    thaw: () => signal('SIGCONT'),
    /** Enables TLS with a certificate for `localhost`. @returns the certificate of its new authority */
    async enableTls(): Promise<string> {
      const authority = installNewCertificate(folder);
      await database.setSystem('SET ssl = on');
      return authority;
    },
    /** Ends the server in any state, and removes its data. */
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
 * Starts a primary with a migrated, empty store and a standby that streams from it, in about three seconds. They
 * end with the test, or with the file whose hook starts them.
 */
export async function startReplicated() {
  const folder = join(tmpdir(), `inventory-replicated-${randomUUID()}`);
  const servers: EmbeddedPostgres[] = [];
  async function start(name: string): Promise<EmbeddedPostgres> {
    const server = await startPostgres(join(folder, name), { throwaway: true });
    servers.push(server);
    return server;
  }
  async function remove(): Promise<void> {
    await Promise.all(servers.splice(0).map((server) => server.stop()));
    rmSync(folder, { recursive: true, force: true });
  }
  await atTestEnd(remove);
  mkdirSync(folder, { mode: 0o755 });
  await (await startStore(join(folder, 'primary'))).stop();

  // A copy of a cluster that was shut down in order is a base backup.
  execFileSync('cp', ['-a', join(folder, 'primary'), join(folder, 'standby')]);
  const primary = await start('primary');
  const standbyData = join(folder, 'standby/data');
  writeFileSync(join(standbyData, 'standby.signal'), '');
  giveToServer(join(standbyData, 'standby.signal'));
  appendFileSync(join(standbyData, 'postgresql.auto.conf'), `primary_conninfo = '${primary.url}'\n`);
  const ofStandby = new Database((await start('standby')).url);
  const ofPrimary = new Database(primary.url);

  async function follow(url: string, isFollowed: string): Promise<void> {
    await ofStandby.setSystem(`SET primary_conninfo = '${url}'`);
    while ((await ofPrimary.sql(`SELECT WHERE ${isFollowed}`)).length === 0) await pause(20);
  }
  return {
    primary: ofPrimary,
    standby: ofStandby,
    remove,
    /** From now on, the standby gets no more changes. A commit that is to wait for it waits. */
    loseStandby: () => follow('', 'NOT EXISTS (SELECT FROM pg_stat_replication)'),
    /** From now on, each commit waits for the standby, which confirms it. */
    async awaitStandby(): Promise<void> {
      await ofPrimary.setSystem(`SET synchronous_standby_names = '*'`);
      await follow(primary.url, `EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')`);
    },
  };
}
