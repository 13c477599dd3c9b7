import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { createDatabase } from '../support/database.ts';
import { readLog } from '../support/log-reader.ts';
import { HAS_POOLER, startPooler } from '../support/pooler.ts';
import { startService } from '../support/service.ts';

describe('the log', () => {
  it('reports that BOOTSTRAP_API_KEY is revoked, and does not contain the key', async () => {
    const log = await readLog();
    const key = randomBytes(24).toString('base64url');
    const database = await createDatabase();
    await database.addKey(key, { id: 'bootrevoked', revoked_at: new Date() });
    await startService({ databaseUrl: database.url, key, settings: { LOG_LEVEL: 'info' } });
    expect(await log.line(({ level }) => level === 'error')).toMatchObject({
      msg: 'BOOTSTRAP_API_KEY is revoked and stays so',
      keyId: 'bootrevoked',
    });
    expect(log.text()).not.toContain(key);
  });

  it.runIf(HAS_POOLER)('names the way out when a pooler does not keep named statements', async () => {
    const log = await readLog();
    const { url } = await startPooler((await createDatabase()).url, 1, 0);
    const settings = { DATABASE_URL: url, LOG_LEVEL: 'info' };
    await startService({ settings }); // its statements stay in the only session
    await startService({ settings, awaitsReady: false });
    const { msg } = await log.line(({ level }) => level === 'warn');
    expect(msg).toMatch(
      /^not ready: a pooler does not keep the named statements of its clients \(.+\); use PgBouncer 1\.21 or later with max_prepared_statements above 0, or session mode \(docs\/deployment\.md\)$/,
    );
  });

  it('reports each change of readiness once, and probes only at level debug', async () => {
    const log = await readLog();
    const { database, sql, url, stop } = await startService({ settings: { LOG_LEVEL: 'debug' } });
    await sql('ALTER TABLE api_key RENAME TO lost');
    const probe = async () => (await fetch(`${url}/health/ready`)).status;
    for (let n = 0; n < 3; n++) expect(await probe()).toBe(503);
    await database.sql('ALTER TABLE lost RENAME TO api_key');
    const timesReady = () => log.lines().filter(({ msg }) => msg === 'ready').length;
    await expect.poll(timesReady).toBe(2); // without a probe
    await stop();
    const lines = log.lines();
    expect(lines[0]).toMatchObject({ level: 'debug', msg: 'Starting Nest application...' });
    expect(lines.filter(({ msg }) => /^(not )?ready/.test(String(msg)))).toMatchObject([
      { level: 'info', msg: 'ready' },
      { level: 'warn', msg: expect.stringMatching(/^not ready: .+/) as string },
      { level: 'info', msg: 'ready' },
    ]);
    const probes = lines.filter(({ route, status }) => route === '/health/ready' && status === 503);
    expect(probes.length).toBeGreaterThanOrEqual(3);
    expect(new Set(probes.map(({ level }) => level))).toEqual(new Set(['debug']));
    expect(lines.some(({ level }) => level === 'error')).toBe(false);
    expect(log.text()).not.toContain('    at ');
  });

  it('has the words of a 503 that has no cause', async () => {
    const log = await readLog();
    const own = await createDatabase();
    await own.sql('ALTER TABLE api_key ADD CONSTRAINT none CHECK (false)'); // which keeps the bootstrap key out
    const { list } = await startService({
      ...{ databaseUrl: own.url, settings: { LOG_LEVEL: 'info' }, awaitsReady: false },
    });
    await log.line(({ msg }) => String(msg).startsWith('not ready: '));
    expect((await list()).status).toBe(503);
    const line = await log.line(({ status }) => status === 503);
    expect(line).toMatchObject({
      level: 'error',
      code: 'service_unavailable',
      err: { message: 'The key is not stored yet.' },
    });
    expect(line).not.toHaveProperty('reason');
    await own.sql('ALTER TABLE api_key RENAME TO lost');
    await log.line(({ msg }) => /^not ready: .*no inventory tables/.test(String(msg))); // another reason is logged, too
    await own.sql('ALTER TABLE lost RENAME TO api_key; ALTER TABLE api_key DROP CONSTRAINT none');
    await log.line(({ msg }) => msg === 'ready');
    expect((await list()).status).toBe(200);
  });
});
