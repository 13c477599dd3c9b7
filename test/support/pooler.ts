import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { freePort } from '../../dev/free-port.ts';
import { serverAccount } from '../../dev/postgres-binaries.ts';
import { atTestEnd } from './test-end.ts';

/** Debian 13 has a PgBouncer that is new enough. PGBOUNCER can name another one, with arguments before our own. */
const [PROGRAM = 'pgbouncer', ...ARGUMENTS] = (process.env['PGBOUNCER'] ?? 'pgbouncer').split(' ');

/** Whether this machine has PgBouncer 1.21 or later, which takes named statements in transaction mode. */
export const HAS_POOLER = isInstalled();

function isInstalled(): boolean {
  try {
    const [, minor = '0'] =
      /^PgBouncer 1\.(\d+)/.exec(execFileSync(PROGRAM, [...ARGUMENTS, '--version'], { encoding: 'utf8' })) ?? [];
    return Number(minor) >= 21;
  } catch {
    return false;
  }
}

/**
 * Starts a PgBouncer in transaction mode before a server. The test that starts it ends it.
 *
 * @param namedStatements how many it keeps for each session; with 0, it knows none, as before 1.21
 */
export async function startPooler(databaseUrl: string, poolSize: number, namedStatements = 100) {
  const { hostname, port, username, password } = new URL(databaseUrl);
  const folder = mkdtempSync(`${tmpdir()}/inventory-pooler-`);
  chmodSync(folder, 0o755);
  const own = await freePort();
  const server = `host=${hostname} port=${port} user=${username} password=${decodeURIComponent(password)}`;
  const lines = [
    '[databases]',
    `* = ${server} pool_size=${poolSize}`,
    '[pgbouncer]',
    `listen_addr = 127.0.0.1\nlisten_port = ${own}\nunix_socket_dir =\nauth_type = any`,
    // Otherwise it refuses everything for 15 s after a session that PostgreSQL refused: docs/deployment.md.
    `pool_mode = transaction\nmax_prepared_statements = ${namedStatements}\nserver_login_retry = 1`,
  ];
  writeFileSync(`${folder}/pgbouncer.ini`, lines.join('\n'));
  const account = serverAccount && { uid: serverAccount.uid, gid: serverAccount.gid };
  const pooler = spawn(PROGRAM, [...ARGUMENTS, '-q', `${folder}/pgbouncer.ini`], { ...account, stdio: 'ignore' });
  const url = new URL(databaseUrl);
  Object.assign(url, { hostname: '127.0.0.1', port: String(own), search: '' });
  function stop(): void {
    pooler.kill();
    rmSync(folder, { recursive: true, force: true });
  }
  await atTestEnd(stop);
  for (const deadline = performance.now() + 30_000; !(await isListening(own));) {
    if (pooler.exitCode !== null || performance.now() > deadline) throw new Error('PgBouncer did not start');
    await pause(10);
  }
  return { url: url.href, pid: pooler.pid ?? 0, stop };
}

async function isListening(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  const isConnected = await once(socket, 'connect').then(
    () => true,
    () => false,
  );
  socket.destroy();
  return isConnected;
}
