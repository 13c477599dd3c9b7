import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chownSync, existsSync, globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { startPostgres } from '../../dev/embedded-postgres.ts';
import { freePort } from '../../dev/free-port.ts';
import { postgresBinaries, serverAccount } from '../../dev/postgres-binaries.ts';
import { applyMigrations } from '../../src/migrations/migrations.ts';
import { startJudgedLoad } from '../containers/judged-load.ts';
import { Database } from '../support/database.ts';
import { ServiceProcess } from '../support/service-process.ts';

/** The programs of PostgreSQL 15, where Debian installs them. */
const OLD_BIN = process.env['OLD_BIN'] ?? '/usr/lib/postgresql/15/bin';
/** POSTGRES_PROGRAMS is a folder that contains all programs of PostgreSQL 18. */
const programs = process.env['POSTGRES_PROGRAMS'] ?? '/usr/lib/postgresql/18';
const NEW_BIN = dirname(join(programs, globSync('**/bin/pg_upgrade', { cwd: programs })[0] ?? 'none'));

const apiKey = randomBytes(24).toString('hex');
let folder: string;
let ends: (() => Promise<unknown>)[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'inventory-upgrade-'));
  if (serverAccount) chownSync(folder, serverAccount.uid, serverAccount.gid);
  ends = [];
});
afterEach(async () => {
  for (const end of ends.toReversed()) await end().catch(() => undefined);
  rmSync(folder, { recursive: true, force: true });
});

/** Runs lines of a script. @returns their standard output */
async function bash(lines: string, variables: NodeJS.ProcessEnv, account: object = {}): Promise<string> {
  const inventory = `inventory() { '${process.execPath}' '${process.cwd()}/dist/cli.js' "$@"; }`;
  const env = { ...process.env, ...variables, PATH: `${NEW_BIN}:${process.env['PATH']}` };
  const options = { ...account, cwd: folder, env, timeout: 120_000 };
  return (await promisify(execFile)('bash', ['-c', `set -eu\n${inventory}\n${lines}`], options)).stdout;
}

/** The unchanged text of a script in deploy/postgres-upgrade/. */
function script(name: string): string {
  return readFileSync(join('deploy/postgres-upgrade', name), 'utf8');
}

async function service(name: string, databaseUrl: string): Promise<ServiceProcess> {
  const settings = { DATABASE_URL: databaseUrl, BOOTSTRAP_API_KEY: apiKey, LOG_LEVEL: 'error' };
  const process = await ServiceProcess.onFreePort(settings, { name });
  ends.push(() => process.kill());
  return process;
}

async function becomeReady(services: readonly ServiceProcess[]): Promise<void> {
  for (const each of services) each.start();
  await Promise.all(services.map((each) => each.becomesReady()));
}

/** Starts load. @returns a function that waits until updates have succeeded for a while, stops the load and judges */
async function loadOn(database: Database, services: readonly ServiceProcess[]) {
  const run = await startJudgedLoad(database, services, apiKey, 5);
  const { last, gapMs, evidence } = run;
  ends.push(() => run.load.stop());
  return async (promisedMs: number, moved = database): Promise<void> => {
    await vi.waitFor(() => expect(performance.now() - last.update).toBeLessThan(100), { timeout: 60_000 });
    await sleep(3_000);
    await run.stop(moved);
    console.log(`no update acknowledged for ${(gapMs.update / 1_000).toFixed(1)} s`);
    expect(evidence.examples).toEqual([]);
    expect(evidence.done).toBeGreaterThan(500);
    expect(gapMs.update).toBeLessThan(promisedMs);
  };
}

async function verify(databaseUrl: string): Promise<void> {
  expect(await bash('inventory history --verify', { DATABASE_URL: databaseUrl })).toContain('is whole');
}

describe('PostgreSQL is replaced by a later one under load; nothing is lost, doubled or stale', () => {
  it.skipIf(!existsSync(OLD_BIN) || !existsSync(NEW_BIN))('by pg_upgrade, from 15 to 18', async () => {
    const port = await freePort();
    const url = `postgresql://postgres:secret@127.0.0.1:${port}/postgres`;
    const data = { OLD_DATA: `${folder}/old`, NEW_DATA: `${folder}/new` };
    const variables = { OLD_BIN, NEW_BIN, ...data, ADMIN_URL: url, PGPORT: String(port) };
    const asServer = (lines: string) => bash(lines, variables, serverAccount);
    await asServer(`
      "$OLD_BIN/initdb" -D "$OLD_DATA" -U postgres -E UTF8 --locale=C --auth-local=trust --auth-host=scram-sha-256 --pwfile=<(echo secret)
      printf "port = $PGPORT\\nlisten_addresses = '127.0.0.1'\\nunix_socket_directories = '$PWD'\\n" >> "$OLD_DATA/postgresql.auto.conf"
      "$OLD_BIN/pg_ctl" start --wait -D "$OLD_DATA" -l old.log`);
    for (const server of ['OLD', 'NEW'])
      ends.push(() => asServer(`"$${server}_BIN/pg_ctl" stop -m immediate -D "$${server}_DATA"`));
    await applyMigrations(url);
    const database = new Database(url);
    const services = [await service('one', url), await service('two', url)];
    await becomeReady(services);
    const judge = await loadOn(database, services);
    await sleep(3_000);
    await asServer(script('pg-upgrade.sh'));
    await judge(30_000);
    expect((await database.sql('SHOW server_version'))[0]?.['server_version']).toMatch(/^18/);
    await verify(url);
  });

  it.skipIf(!existsSync(NEW_BIN))('by logical replication, from 17 to 18', async () => {
    const [old, fresh] = await Promise.all(
      ['17', '18'].map(async (major) => {
        const options = { binaries: postgresBinaries(major), throwaway: true };
        const server = await startPostgres(join(folder, major), options);
        const admin = new Database(server.url);
        await admin.sql(`CREATE ROLE inventory LOGIN PASSWORD 'secret'`);
        await admin.sql(`CREATE DATABASE inventory OWNER inventory`);
        await admin.setSystem(`SET wal_level = logical`);
        await server.stop();
        const again = await startPostgres(join(folder, major), { ...options, port: server.port });
        ends.push(() => again.stop());
        const adminUrl = server.url.replace(/postgres$/, 'inventory');
        const serviceUrl = adminUrl.replace(/\/\/.*@/, '//inventory:secret@');
        return { adminUrl, serviceUrl, database: new Database(adminUrl) };
      }),
    );
    if (!old || !fresh) throw new Error('two servers are needed');
    await applyMigrations(old.serviceUrl);
    await fresh.database.sql(`DO $$BEGIN FOR i IN 1..20000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END$$`);
    const admins = { OLD_ADMIN_URL: old.adminUrl, NEW_ADMIN_URL: fresh.adminUrl };
    const variables = { ...admins, NEW_DATABASE_URL: fresh.serviceUrl };
    const former = [await service('old one', old.serviceUrl), await service('old two', old.serviceUrl)];
    await becomeReady(former);
    const later = [await service('new one', fresh.serviceUrl), await service('new two', fresh.serviceUrl)];
    // Clients use all four services, ready or not: the judge would see a stale list.
    const judge = await loadOn(old.database, [...former, ...later]);
    await sleep(2_000);
    await bash(script('replicate.sh'), variables);
    for (const each of later) each.start();
    for (const each of later) await vi.waitFor(async () => expect(await each.health('ready')).toBe(503), 20_000);
    await bash(script('switch.sh'), variables);
    await judge(5_000, fresh.database);
    for (const each of later) expect(await each.health('ready')).toBe(200);
    for (const each of former) expect(await each.health('ready')).toBe(503);
    await verify(fresh.serviceUrl);
    const pruned = 'TABLE stock_change_pruned';
    expect(await fresh.database.sql(pruned)).toEqual(await old.database.sql(pruned));
  });
});
