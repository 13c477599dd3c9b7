import { setTimeout as pause } from 'node:timers/promises';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { Settings } from '../../src/settings.ts';
import { Database } from '../support/database.ts';
import { startReplicated } from '../support/postgres-server.ts';
import type { TestService } from '../support/service.ts';
import { POOLER_SESSIONS, eachService } from './services.ts';

let replicated: Awaited<ReturnType<typeof startReplicated>>;

beforeAll(async () => {
  replicated = await startReplicated();
  await onPrimary(`INSERT INTO inventory_item SELECT n, 0, 'available' FROM generate_series(1, 100) n`);
  // The service needs commits that wait for the standby, and a warning of one that did not. It must set both by itself.
  await onPrimary(
    `ALTER DATABASE postgres SET client_min_messages = error; ALTER DATABASE postgres SET synchronous_commit = local`,
  );
  await replicated.awaitStandby();
});

const onPrimary = (statement: string) => replicated.primary.sql(statement);
const held = () =>
  onPrimary(`SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name LIKE 'inventory %'`);

async function loseStandby(): Promise<void> {
  onTestFinished(() => replicated.awaitStandby());
  await replicated.loseStandby();
}

/** A commit whose wait is cancelled is in the database, but a failover may lose it. */
async function cancelWait(): Promise<void> {
  await expect.poll(held).toHaveLength(1);
  await onPrimary(`SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`);
}

/** As another client of the pooler leaves settings in all of its sessions. */
async function leaveSettings({ app }: TestService): Promise<void> {
  const pooler = new Database(app.get<Settings>(Settings).DATABASE_URL);
  const clients = await Promise.all(
    Array.from({ length: POOLER_SESSIONS }, () =>
      pooler.session('SET client_min_messages = error', 'SET synchronous_commit = local'),
    ),
  );
  await Promise.all(clients.map((client) => client.query('COMMIT')));
}

const codeOf = async (update: ReturnType<TestService['update']>) => {
  const { status, text } = await update;
  return (JSON.parse(text) as { code?: string }).code ?? String(status);
};

async function metricsOf({ url, key }: TestService): Promise<string> {
  const response = await fetch(`${url}/metrics`, { headers: { Authorization: `Bearer ${key}` } });
  return response.text();
}

eachService(({ start }) => {
  it('an unconfirmed commit is outcome_unknown, and so is its repetition', async () => {
    const service = await start({ databaseUrl: replicated.primary.url });
    const update = (name: string, quantity: number) =>
      codeOf(service.update(1, quantity, [['Idempotency-Key', `${name}-${service.port}`]]));
    expect(await update('first', 1)).toBe('200');
    await leaveSettings(service);
    await loseStandby();
    const unconfirmed = update('second', 2);
    await cancelWait();
    expect(await unconfirmed).toBe('outcome_unknown');
    const repeated = update('first', 1); // perhaps of a commit that is not confirmed
    await cancelWait();
    expect(await repeated).toBe('outcome_unknown');
    await replicated.awaitStandby();
    await expect.poll(() => update('third', 3)).toBe('200');
  });

  it(
    'a lost synchronous standby holds five commits of a process at most, lists go on, and the metrics show it',
    { timeout: 120_000 },
    async () => {
      const service = await start({ databaseUrl: replicated.primary.url, settings: { REQUEST_DEADLINE_MS: '2000' } });
      expect(await codeOf(service.update(100, 1))).toBe('200');
      await onPrimary('UPDATE api_key SET last_used_at = NULL');
      await loseStandby();
      const late = await start({ databaseUrl: replicated.primary.url, key: service.key });
      expect((await late.list()).status).toBe(200);
      await expect.poll(() => onPrimary('SELECT FROM api_key WHERE last_used_at IS NOT NULL')).toHaveLength(1); // waits for nobody
      const codes: string[] = [];
      let most = 0;
      for (let pet = 1; codes.slice(-8).filter((code) => code === 'service_unavailable').length < 8; pet += 2) {
        const updates = [pet, pet + 1].map((each) =>
          codeOf(service.update((each % 99) + 1, 5, [['X-Request-Id', `r${service.port}-${each - 1}`]])),
        );
        const lists = await Promise.all([service.list(), service.list()]);
        expect(lists.map(({ status }) => status)).toEqual([200, 200]);
        codes.push(...(await Promise.all(updates)));
        most = Math.max(most, (await held()).length);
        expect(codes.length).toBeLessThan(100);
      }
      expect([4, 5]).toContain(most);
      expect(new Set(codes)).toEqual(new Set(['outcome_unknown', 'service_unavailable']));
      expect(await metricsOf(service)).toMatch(/^inventory_held_commits [45]$/m);
      await onPrimary(`SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`);
      await expect.poll(() => codeOf(service.update(100, 2))).toBe('outcome_unknown'); // there is room again
      await replicated.awaitStandby();
      await expect.poll(() => codeOf(service.update(100, 3))).toBe('200');
      expect(await held()).toEqual([]);
      const written = await onPrimary(`SELECT request_id FROM stock_change WHERE request_id LIKE 'r${service.port}-%'`);
      expect(written.map((row) => codes[Number(String(row['request_id']).split('-')[1])])).not.toContain(
        'service_unavailable',
      );
    },
  );

  it('a refusal between two updates does not let more than five commits wait', async () => {
    const settings = { REQUEST_DEADLINE_MS: '3000', DATABASE_POOL_SIZE: '10' };
    const service = await start({ databaseUrl: replicated.primary.url, settings });
    await onPrimary('CREATE TABLE IF NOT EXISTS elsewhere ()');
    await loseStandby();
    const commit = `SET application_name = 'inventory pool'; SET synchronous_commit = on; INSERT INTO elsewhere DEFAULT VALUES`;
    const givenUp = await Promise.all([1, 2].map(() => replicated.primary.session(commit)));
    for (const each of givenUp) each.query('COMMIT').catch(() => undefined);
    await pause(2_500); // until they count: PostgreSQL tells their age, and nothing else happens meanwhile
    const blocker = await replicated.primary.session('LOCK TABLE inventory_item');
    const refused = service.update(1_000, 9);
    await expect.poll(() => replicated.primary.waitingForLocks()).toBeGreaterThan(0);
    const others = [11, 12, 13, 14, 15].map((pet) => service.update(pet, 9));
    await metricsOf(service); // its key is checked after theirs, so they wait their turn now
    await blocker.end();
    expect((await refused).status).toBe(404);
    await Promise.all(others);
    expect((await held()).length).toBeLessThanOrEqual(5);
  });
});
