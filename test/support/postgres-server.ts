import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { isAlive } from '../../dev/embedded-postgres.ts';
import { applyMigrations } from '../../src/database/migrations.ts';
import { createCertificate, type Certificate } from './certificate.ts';
import { Database } from './database.ts';
import { installCertificate, startTestServer } from './test-server.ts';

/** A PostgreSQL server of a test's own, durable like a real one, to be hurt. */
export interface FaultyPostgres {
  /** For DATABASE_URL: a migrated, empty store. The same through every crash and restart. */
  readonly url: string;
  readonly port: number;
  /** Where its data is; its owner is the account that it runs as. */
  readonly dataFolder: string;
  /** False from its end, wanted or not, to {@link restart}. */
  readonly isRunning: boolean;
  /** The store, past the service. */
  readonly database: Database;
  /** SIGKILL to all its processes at once, as a power cut would. */
  crash(): Promise<void>;
  /** An orderly shutdown that cuts the sessions. */
  stop(): Promise<void>;
  /** Starts it again after {@link crash} or {@link stop}, on the same port and data. */
  restart(): Promise<void>;
  /** From here to {@link thaw} it answers nothing, though the kernel still accepts connections for it. */
  freeze(): void;
  thaw(): void;
  /** Lets clients speak TLS with it, by a certificate for `localhost` of a new authority. @returns the authority's certificate */
  enableTls(): Promise<string>;
  /** Gives new connections this certificate from now on, once TLS is enabled. */
  useCertificate(certificate: Certificate): Promise<void>;
  /** Ends TLS again, or wants it of everybody. */
  wantTls(wanted: 'off' | 'hostssl'): Promise<void>;
  /** Ends it, whatever its state, and removes its data. */
  remove(): Promise<void>;
}

/**
 * About a second. Call `remove` in `afterAll`.
 *
 * @param start `startPostgres`, for a server that knows nothing of TLS whatever TEST_DATABASE_TLS says
 */
export async function startFaultyPostgres(start = startTestServer): Promise<FaultyPostgres> {
  const folder = join(tmpdir(), `inventory-fault-${randomUUID()}`);
  let server = await start(folder, { throwaway: true });
  const { url, port } = server;
  const database = new Database(url);
  await applyMigrations(url);

  function signal(name: 'SIGKILL' | 'SIGSTOP' | 'SIGCONT'): void {
    for (const pid of [server.pid, ...childrenOf(server.pid)]) process.kill(pid, name);
  }
  async function crash(): Promise<void> {
    signal('SIGKILL');
    const waiting = setInterval(() => undefined, 1_000); // the server itself does not keep this process running
    await server.ended;
    clearInterval(waiting);
  }
  /** By a signal: it may let nobody in at the moment. */
  async function reload(): Promise<void> {
    process.kill(server.pid, 'SIGHUP');
    await pause(500);
  }
  return {
    url,
    port,
    dataFolder: join(folder, 'data'),
    get isRunning() {
      return isAlive(server.pid);
    },
    database,
    crash,
    stop: () => server.stop(),
    async restart() {
      server = await start(folder, { throwaway: true, port });
    },
    freeze() {
      signal('SIGSTOP');
    },
    thaw() {
      signal('SIGCONT');
    },
    async enableTls() {
      const authority = createCertificate({ name: 'an authority' });
      installCertificate(folder, createCertificate({ issuer: authority }));
      await database.setSystem('SET ssl = on');
      return authority.certificate;
    },
    async useCertificate(certificate) {
      installCertificate(folder, certificate);
      await reload();
    },
    async wantTls(wanted) {
      const rules = join(folder, 'data', 'pg_hba.conf');
      const type = wanted === 'off' ? 'host' : wanted;
      writeFileSync(rules, `${type} all all 127.0.0.1/32 scram-sha-256\n`);
      if (wanted === 'off') writeFileSync(join(folder, 'data', 'postgresql.auto.conf'), 'ssl = off\n');
      await reload();
    },
    async remove() {
      await crash().catch(() => undefined); // it may be down already
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function childrenOf(pid: number): number[] {
  const list =
    process.platform === 'linux'
      ? readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
      : execFileSync('pgrep', ['-P', String(pid)], { encoding: 'utf8' });
  return list.trim().split(/\s+/).map(Number);
}
