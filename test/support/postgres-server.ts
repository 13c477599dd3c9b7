import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { chownSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { isAlive, startPostgres } from '../../dev/embedded-postgres.ts';
import { serverAccount } from '../../dev/postgres-binaries.ts';
import { applyMigrations } from '../../src/database/migrations.ts';
import { selfSignedCertificate } from './certificate.ts';
import { Database } from './database.ts';

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
  /** Lets clients speak TLS with it, by a new certificate for `localhost`. @returns the certificate, which vouches for itself */
  enableTls(): Promise<string>;
  /** Ends TLS again, or wants it of everybody. */
  wantTls(wanted: 'off' | 'hostssl'): Promise<void>;
  /** Ends it, whatever its state, and removes its data. */
  remove(): Promise<void>;
}

/** About a second. Call `remove` in `afterAll`. */
export async function startFaultyPostgres(): Promise<FaultyPostgres> {
  const folder = join(tmpdir(), `inventory-fault-${randomUUID()}`);
  let server = await startPostgres(folder, { throwaway: true });
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
      server = await startPostgres(folder, { throwaway: true, port });
    },
    freeze() {
      signal('SIGSTOP');
    },
    thaw() {
      signal('SIGCONT');
    },
    async enableTls() {
      const { certificate, key } = selfSignedCertificate();
      for (const [name, text] of [
        ['server.crt', certificate],
        ['server.key', key],
      ] as const) {
        const file = join(folder, 'data', name);
        writeFileSync(file, text, { mode: 0o600 });
        if (serverAccount) chownSync(file, serverAccount.uid, serverAccount.gid);
      }
      await database.setSystem('SET ssl = on');
      return certificate;
    },
    async wantTls(wanted) {
      const rules = join(folder, 'data', 'pg_hba.conf');
      const type = wanted === 'off' ? 'host' : wanted;
      // Of this machine itself there is no socket, so PostgreSQL is told by a signal.
      writeFileSync(rules, `${type} all all 127.0.0.1/32 scram-sha-256\n`);
      if (wanted === 'off') writeFileSync(join(folder, 'data', 'postgresql.auto.conf'), 'ssl = off\n');
      process.kill(server.pid, 'SIGHUP');
      await pause(500);
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
