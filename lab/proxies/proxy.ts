import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { vi } from 'vitest';
import { startChild } from '../../dev/child.ts';
import { freePort } from '../../dev/free-port.ts';
import { Connection } from '../../test/support/http-client.ts';
import { atTestEnd } from '../../test/support/test-end.ts';

export type ProxyName = 'haproxy' | 'nginx';
export type Changes = readonly (readonly [from: string, to: string])[];

/** Folders that nginx would otherwise keep where only Debian's own user can write. */
const TEMPORARY = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];

const PROXIES = {
  haproxy: {
    file: 'deploy/scale/haproxy.cfg',
    arguments: ['-db', '-f'],
    here: (port: number, upstream: number): Changes => [
      [':8080', `127.0.0.1:${port}`],
      [' resolvers docker init-addr none', ''],
      ['server-template replica 10 replica:3000', `server replica 127.0.0.1:${upstream}`],
    ],
  },
  nginx: {
    file: 'deploy/nginx/nginx.conf',
    arguments: ['-g', 'daemon off;', '-c'],
    here: (port: number, upstream: number, folder: string): Changes => [
      ['/var/log/nginx/inventory.log inventory if=$refused', `${folder}/log inventory`],
      ['/run/nginx.pid', `${folder}/pid`],
      ['http {', `http { ${TEMPORARY.map((of) => `${of}_temp_path ${folder}/${of};`).join(' ')}`],
      ['listen 8080', `listen 127.0.0.1:${port}`],
      ['replica:3000', `127.0.0.1:${upstream}`],
    ],
  },
};

/** Debian puts both programs into a folder that is not on the path of an ordinary user. */
const PATH = `${process.env['PATH'] ?? ''}:/usr/sbin`;

export function configuration(name: ProxyName): string {
  return readFileSync(new URL(`../../${PROXIES[name].file}`, import.meta.url), 'utf8');
}

/** Logs when the program is missing. */
export function isInstalled(name: ProxyName): boolean {
  const isThere = spawnSync(name, ['-v'], { env: { PATH } }).status === 0;
  if (!isThere) console.log(`${name} is not installed, and so not tried`);
  return isThere;
}

export type Proxy = Awaited<ReturnType<typeof startProxy>>;

/**
 * Starts a proxy with its configuration from `deploy/`, changed to use ports and folders of this machine. It ends
 * with the test, or with the file whose hook starts it.
 *
 * @param changes further changes, for a harder case
 * @throws when the configuration does not have the text of a change
 */
export async function startProxy(name: ProxyName, upstreamPort: number, changes: Changes = []) {
  const { file, here, ...program } = PROXIES[name];
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), 'inventory-proxy-'));
  chmodSync(folder, 0o755);
  let config = configuration(name);
  for (const [from, to] of [...changes, ...here(port, upstreamPort, folder)]) {
    if (!config.includes(from)) throw new Error(`${file} has no "${from}"`);
    config = config.replaceAll(from, () => to);
  }
  writeFileSync(join(folder, 'config'), config);
  const command = [name, ...program.arguments, join(folder, 'config')];
  const child = await startChild(command, 'TERM', { stdio: ['ignore', 'pipe', 'pipe'], env: { PATH } }, folder);
  async function stop(): Promise<void> {
    child.process.kill('SIGTERM');
    await child.ended;
    rmSync(folder, { recursive: true, force: true });
  }
  await atTestEnd(stop);
  let output = '';
  for (const stream of [child.process.stdout, child.process.stderr]) {
    stream?.setEncoding('utf8').on('data', (text: string) => (output += text));
  }
  const listens = async () => (await Connection.open(port)).destroy();
  await vi.waitFor(listens, { timeout: 15_000, interval: 20 }).catch(() => {
    throw new Error(`${name} does not start: ${output}`);
  });
  return {
    port,
    log: () => (name === 'nginx' ? readFileSync(join(folder, 'log'), 'utf8') : output),
  };
}
