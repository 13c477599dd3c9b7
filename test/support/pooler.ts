import { execFileSync, spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { freePort } from '../../dev/free-port.ts';
import { serverAccount } from '../../dev/postgres-binaries.ts';

/** Debian 13's package has one that is new enough; another can be named. */
const PROGRAM = process.env['PGBOUNCER'] ?? 'pgbouncer';

/** Whether there is a PgBouncer that takes named statements in transaction mode, as 1.21 and later do. */
export function hasPooler(): boolean {
  try {
    const [, minor = '0'] =
      /^PgBouncer 1\.(\d+)/.exec(execFileSync(PROGRAM, ['--version'], { encoding: 'utf8' })) ?? [];
    return Number(minor) >= 21;
  } catch {
    return false;
  }
}

/** A PgBouncer in transaction mode before the server of the address, with nothing set but what it needs to run. */
export async function startPooler(databaseUrl: string, poolSize: number) {
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
    'pool_mode = transaction\nmax_prepared_statements = 100',
  ];
  writeFileSync(`${folder}/pgbouncer.ini`, lines.join('\n'));
  const account = serverAccount && { uid: serverAccount.uid, gid: serverAccount.gid };
  const pooler = spawn(PROGRAM, ['-q', `${folder}/pgbouncer.ini`], { ...account, stdio: 'ignore' });
  const url = new URL(databaseUrl);
  Object.assign(url, { hostname: '127.0.0.1', port: String(own), search: '' });
  return {
    url: url.href,
    stop(): void {
      pooler.kill();
      rmSync(folder, { recursive: true });
    },
  };
}
