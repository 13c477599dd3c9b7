import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { appendFileSync, cpSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../../dev/free-port.ts';
import { CSV_HEADER, itemText } from '../../test/support/stock.ts';
import { becomesReady, composeCommand } from './compose-project.ts';

const run = promisify(execFile);

/** A clone of this folder, with a compose project of its own. */
let parent: string;
let clone: string;
let settings: NodeJS.ProcessEnv;
let key = '';
let url = '';

beforeAll(async () => {
  parent = mkdtempSync(join(tmpdir(), 'inventory-recipes-'));
  const origin = join(parent, 'origin');
  clone = join(parent, 'clone');
  const { stdout: files } = await run('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard']);
  for (const file of files.split('\0').filter(Boolean)) cpSync(file, join(origin, file));
  await bash(`git init -q && ${commit('first')}`, origin);
  await bash(`git clone -q '${origin}' '${clone}'`, parent);
  bringPrograms();
  const port = await freePort();
  url = `http://localhost:${port}`;
  settings = { PORT: String(port), COMPOSE_PROJECT_NAME: `inventory-recipes-${randomBytes(4).toString('hex')}` };
  await bash('docker compose up --detach');
  await becomesReady(`${url}/health/ready`);
});
afterAll(async () => {
  await bash('docker compose down --volumes --timeout 5');
  rmSync(parent, { recursive: true, force: true });
});

/**
 * Puts the PostgreSQL 18 programs of the folder POSTGRES_PROGRAMS into the container of the database. Some images have
 * no `pg_dump` of the version of their server.
 */
function bringPrograms(): void {
  const folder = process.env['POSTGRES_PROGRAMS'];
  if (!folder) return;
  const [program] = globSync('**/bin/pg_dump', { cwd: folder });
  if (!program) throw new Error(`there is no bin/pg_dump under ${folder}`);
  const PATH = `/opt/programs/${dirname(program)}:/usr/lib/postgresql/18/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`;
  const postgres = { volumes: [`${folder}:/opt/programs:ro`], environment: { PATH, PGHOST: '/var/run/postgresql' } };
  writeFileSync(join(clone, 'docker-compose.override.yml'), JSON.stringify({ services: { postgres } }));
}

const commit = (message: string) =>
  `git add -A && git -c user.name=trial -c user.email=trial@example.invalid commit -qm '${message}'`;

/** Runs lines of the documents and the scripts. Without the compose plugin, `docker compose` is docker-compose. */
async function bash(lines: string, cwd = clone): Promise<string> {
  const [command = '', ...rest] = composeCommand;
  const old = `docker() { if [ "$1" = compose ]; then shift; ${command} "$@"; else command docker "$@"; fi; }\n`;
  const script = `set -eu\n${rest.length === 0 ? old : ''}${lines}`;
  const env = { ...process.env, ...settings };
  const { stdout } = await run('bash', ['-c', script], { cwd, env, maxBuffer: 1 << 26 });
  return stdout;
}

/** The unchanged text of a script in deploy/compose/. */
function script(name: string): string {
  return readFileSync(join(clone, 'deploy/compose', name), 'utf8');
}

/** The unchanged shell lines under a heading of a page. */
function recipe(page: string, heading: string): string {
  const [, section = ''] = readFileSync(join(clone, 'docs', page), 'utf8').split(`# ${heading}\n`);
  const lines = /^```sh\n([^]*?)^```$/m.exec(section.split(/^##/m)[0] ?? '')?.[1];
  if (!lines) throw new Error(`there are no commands under "${heading}"`);
  return lines;
}

async function stock(): Promise<string> {
  const answer = await fetch(`${url}/v1/inventory`, { headers: { authorization: `Bearer ${key}` } });
  expect(answer.status).toBe(200);
  return answer.text();
}

async function setQuantity(quantity: number): Promise<void> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const body = JSON.stringify({ quantity });
  expect((await fetch(`${url}/v1/inventory/1`, { method: 'PATCH', headers, body })).status).toBe(200);
  expect(await stock()).toContain(itemText(1, quantity));
}

describe('docker compose up right after git clone', () => {
  it('prints a key and a command that works, once', async () => {
    const log = await bash('docker compose logs --no-color setup');
    key = /API key +(\S+)/.exec(log)?.[1] ?? '';
    const [curl = ''] = /curl .*/.exec(log) ?? [];
    expect(curl).toContain(url);
    expect(await bash(curl)).toMatch(/^\[\{"petId":1,/);
    await bash('docker compose up --detach');
    expect((await bash('docker compose logs --no-color setup')).match(/API key/g)?.length ?? 0).toBeLessThanOrEqual(1);
    const keys = JSON.parse(await bash('docker compose exec -T inventory inventory keys list --json')) as unknown[];
    expect(keys).toHaveLength(1);
  });
});

describe('with compose', { timeout: 240_000 }, () => {
  it('imports a file of this machine', async () => {
    writeFileSync(join(clone, 'stock.csv'), `${CSV_HEADER}9007199254740993,7,available\n`);
    await bash(recipe('stock-files.md', 'With compose'));
    expect(await stock()).toContain(itemText('9007199254740993', 7));
  });

  it('changes nothing when the file to restore is no backup', async () => {
    const before = await stock();
    const unsound = script('restore.sh').replaceAll('inventory.dump', 'README.md');
    await expect(bash(unsound)).rejects.toThrow('archive');
    expect(await stock()).toBe(before);
  });

  it('takes a backup and restores it, over the same server and over a new one', async ({ skip }) => {
    const version = await bash('docker compose exec -T postgres pg_dump --version');
    if (!version.includes(' 18.')) skip(`the postgres image has no pg_dump of its own version: ${version}`);
    // After these, the transactions of the backup lie in the future of a new server.
    const burn = 'DO $$BEGIN FOR i IN 1..5000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END$$';
    await bash(`docker compose exec -T postgres psql -U inventory -d inventory -c '${burn}'`);
    await setQuantity(4710);
    const before = await stock();
    await bash(recipe('deployment.md', 'Back up to this machine'));
    await restoredAfter(before, () => setQuantity(4711));
    await restoredAfter(before, () => bash('docker compose down --volumes --timeout 5 && docker compose up --detach'));
  });

  async function restoredAfter(before: string, change: () => Promise<unknown>): Promise<void> {
    await change();
    await becomesReady(`${url}/health/ready`);
    expect(await bash(script('restore.sh'))).toContain('pets is whole');
    await becomesReady(`${url}/health/ready`);
    expect(await stock()).toBe(before);
    for (const quantity of [1, 4710]) await setQuantity(quantity);
    expect(await stock()).toBe(before);
  }

  it('installs a new version', async () => {
    const before = await stock();
    appendFileSync(join(parent, 'origin/src/main.ts'), "\nprocess.stdout.write('the new version\\n');\n");
    await bash(commit('second'), join(parent, 'origin'));
    await bash(recipe('deployment.md', 'Upgrade'));
    await becomesReady(`${url}/health/ready`);
    expect(await bash('docker compose logs --no-color inventory')).toContain('the new version');
    expect(await stock()).toBe(before);
  });

  it('changes the password of the database, after a new one in .env did not', async () => {
    const before = await stock();
    writeFileSync(join(clone, '.env'), 'POSTGRES_PASSWORD=another\n');
    await expect(bash('docker compose up --detach')).rejects.toThrow('exit');
    await bash(script('change-password.sh'));
    await becomesReady(`${url}/health/ready`);
    expect(await stock()).toBe(before);
    const former = 'DATABASE_URL=postgresql://inventory:inventory@postgres/inventory';
    const keys = bash(`docker compose exec -T -e ${former} inventory inventory keys list`);
    await expect(keys).rejects.toThrow(/password/);
  });
});
