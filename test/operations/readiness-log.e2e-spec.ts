import { randomBytes } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { createDatabase, type Database } from '../support/database.ts';
import { ask } from '../support/http-client.ts';
import { HAS_POOLER, startPooler } from '../support/pooler.ts';
import { ServiceProcess } from '../support/service-process.ts';

describe('the log', () => {
  const bootstrap = randomBytes(24).toString('base64url');
  let database: Database;

  beforeAll(async () => {
    database = await createDatabase();
  });

  const start = (settings = {}) =>
    ServiceProcess.running({ DATABASE_URL: database.url, BOOTSTRAP_API_KEY: bootstrap, ...settings });
  const list = ({ port }: ServiceProcess) =>
    ask(port, { target: '/v1/inventory', headers: { Authorization: `Bearer ${bootstrap}` } });

  it('reports that BOOTSTRAP_API_KEY is revoked, and does not contain the key', async () => {
    const key = randomBytes(24).toString('base64url');
    await database.addKey(key, { id: 'bootrevoked', revoked_at: new Date() });
    const service = await start({ BOOTSTRAP_API_KEY: key });
    expect(await service.line(({ level }) => level === 'error')).toMatchObject({
      msg: 'BOOTSTRAP_API_KEY is revoked and stays so',
      keyId: 'bootrevoked',
    });
    expect(service.log).not.toContain(key);
  });

  it.runIf(HAS_POOLER)('names the way out when a pooler does not keep named statements', async () => {
    const { url } = await startPooler(database.url, 1, 0);
    await start({ DATABASE_URL: url }); // its statements stay in the only session
    const second = await ServiceProcess.onFreePort({ DATABASE_URL: url });
    second.start();
    const { msg } = await second.line(({ level }) => level === 'warn');
    expect(msg).toMatch(
      /^not ready: a pooler does not keep the named statements of its clients \(.+\); use PgBouncer 1\.21 or later with max_prepared_statements above 0, or session mode \(docs\/deployment\.md\)$/,
    );
  });

  it('reports each change of readiness once, and probes only at level debug', async () => {
    const own = await createDatabase();
    const service = await start({ DATABASE_URL: own.url, LOG_LEVEL: 'debug' });
    const name = new URL(own.url).pathname.slice(1);
    await database.sql(`ALTER DATABASE ${name} ALLOW_CONNECTIONS false`);
    await database.sql('SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1', [name]);
    for (let n = 0; n < 3; n++) expect(await service.health('ready')).toBe(503);
    await database.sql(`ALTER DATABASE ${name} ALLOW_CONNECTIONS true`);
    const timesReady = () => service.lines().filter(({ msg }) => msg === 'ready').length;
    await expect.poll(timesReady).toBe(2); // without a probe
    await service.terminate();
    const lines = service.lines();
    expect(lines[0]).toMatchObject({ level: 'debug', msg: 'Starting Nest application...' });
    expect(lines.filter(({ msg }) => /^(not )?ready/.test(String(msg)))).toMatchObject([
      { level: 'info', msg: 'ready' },
      { level: 'warn', msg: expect.stringMatching(/^not ready: .+ \(55000\)$/) as string },
      { level: 'info', msg: 'ready' },
    ]);
    const probes = lines.filter(({ route, status }) => route === '/health/ready' && status === 503);
    expect(probes.length).toBeGreaterThanOrEqual(3);
    expect(new Set(probes.map(({ level }) => level))).toEqual(new Set(['debug']));
    expect(lines.some(({ level }) => level === 'error')).toBe(false);
    expect(service.log).not.toContain('    at ');
  });

  it('has the words of a 503 that has no cause', async () => {
    const own = await createDatabase();
    await own.sql('ALTER TABLE api_key ADD CONSTRAINT none CHECK (false)'); // which keeps the bootstrap key out
    const service = await ServiceProcess.onFreePort({ DATABASE_URL: own.url, BOOTSTRAP_API_KEY: bootstrap });
    service.start();
    await expect.poll(() => service.log).toContain('"not ready: ');
    expect((await list(service)).status).toBe(503);
    const line = await service.line(({ status }) => status === 503);
    expect(line).toMatchObject({
      level: 'error',
      code: 'service_unavailable',
      err: { message: 'The key is not stored yet.' },
    });
    expect(line).not.toHaveProperty('reason');
    await own.sql('ALTER TABLE api_key RENAME TO lost');
    await service.line(({ msg }) => /^not ready: .*no inventory tables/.test(String(msg))); // another reason is logged, too
    await own.sql('ALTER TABLE lost RENAME TO api_key; ALTER TABLE api_key DROP CONSTRAINT none');
    await service.becomesReady();
    expect((await list(service)).status).toBe(200);
  });
});
