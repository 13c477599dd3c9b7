import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { KeyCheck } from '../../src/keys/key-check.ts';
import { PrismaService } from '../../src/prisma.service.ts';
import { applyMigrations } from '../../src/migrations/migrations.ts';
import { Metrics } from '../../src/operations/metrics.ts';
import { watchBatches } from '../support/batches.ts';
import { createDatabase } from '../support/database.ts';
import { sendRaw } from '../support/http-client.ts';
import { PATIENCE_MS } from '../support/patience.ts';
import { type FaultyPostgres, startFaultyPostgres } from '../support/postgres-server.ts';
import { type TestService, startService } from '../support/service.ts';
import { ServiceProcess } from '../support/service-process.ts';

const OK = [200, { status: 'ok' }];
const unavailable = (message: string) => [503, { code: 'service_unavailable', status: 503, message }];
const UNAVAILABLE = unavailable('The database cannot be used at the moment.');
const NOT_FOUND = unavailable('The service has not found its database, with all migrations, yet.');

async function probe(url: string, name: 'live' | 'ready'): Promise<[status: number, body: unknown]> {
  const answer = await fetch(`${url}/health/${name}`);
  expect(answer.headers.get('cache-control')).toBe('no-store');
  return [answer.status, await answer.json()];
}

describe('GET /health/live and /health/ready when the database fails', () => {
  let postgres: FaultyPostgres;
  let service: TestService;

  beforeAll(async () => {
    postgres = await startFaultyPostgres();
    service = await startService({ databaseUrl: postgres.url });
  });
  afterEach(async () => {
    if (!postgres.isRunning) await postgres.restart();
    postgres.thaw();
    await expect.poll(() => probe(service.url, 'ready')).toEqual(OK);
  });

  it('is live but not ready while the database is frozen', async () => {
    postgres.freeze();
    const probes = Promise.all(Array.from({ length: 50 }, () => probe(service.url, 'ready')));
    expect(await probe(service.url, 'live')).toEqual(OK);
    expect(await probes).toEqual(Array(50).fill(UNAVAILABLE));
  });

  it('asks the database once for the probes of one moment', async () => {
    const checks = watchBatches('key_check');
    postgres.freeze();
    const probes = Promise.all(Array.from({ length: 50 }, () => probe(service.url, 'ready')));
    await expect.poll(() => service.app.get(Metrics).activeRequests).toBeGreaterThan(10);
    postgres.thaw();
    await probes;
    expect(new Set(checks)).toEqual(new Set([1]));
  });

  it('answers before a request that waits for the frozen database, also when MAX_WAITING_REQUESTS is reached', async () => {
    const crowded = await startService({ databaseUrl: postgres.url, settings: { MAX_WAITING_REQUESTS: '1' } });
    const scrape = () => fetch(`${crowded.url}/metrics`, { headers: { Authorization: `Bearer ${crowded.key}` } });
    expect((await scrape()).status).toBe(200);
    postgres.freeze();
    const lists = Array.from({ length: 5 }, () => crowded.list());
    // One list waits, and the others are refused at once: before a probe, which gives the database a second.
    expect(await Promise.race([probe(crowded.url, 'ready'), ...lists])).toMatchObject({ status: 503 });
    expect((await scrape()).status).toBe(200);
    const allLists = Promise.all(lists);
    expect(await Promise.race([allLists, probe(crowded.url, 'ready')])).toEqual(UNAVAILABLE);
    const ping = crowded.app.get(KeyCheck).ping(performance.now() + PATIENCE_MS); // what a probe does, with more time
    postgres.thaw();
    await ping; // a crowd alone is no reason
    await allLists;
  });

  it('is live but not ready while the database is down', async () => {
    await postgres.stop();
    expect(await probe(service.url, 'ready')).toEqual(UNAVAILABLE);
    expect(await probe(service.url, 'live')).toEqual(OK);
  });
});

describe('GET /health/ready', () => {
  it('is 503 until the database is migrated, then 200 without a restart, on the port that the log names', async () => {
    const database = await createDatabase({ migrated: false });
    const nodeOptions = ['--insecure-http-parser']; // has no effect
    const service = await ServiceProcess.onFreePort({ DATABASE_URL: database.url, PORT: '0' }, { nodeOptions });
    service.start();
    const { address, port } = await service.line(({ msg }) => msg === 'listening');
    expect(address).toBe('127.0.0.1');
    const url = `http://127.0.0.1:${String(port)}`;
    await service.line(({ level }) => level === 'warn');
    expect(await probe(url, 'ready')).toEqual(NOT_FOUND);
    const malformed = 'GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n';
    expect(await sendRaw(Number(port), malformed)).toMatch(/^HTTP\/1.1 400 /);
    await applyMigrations(database.url);
    await expect.poll(() => probe(url, 'ready')).toEqual(OK);
    await expect
      .poll(() =>
        service
          .lines()
          .filter(({ status }) => status === undefined)
          .map(({ level, msg }) => `${String(level)} ${String(msg)}`),
      )
      .toEqual([
        'info listening',
        'warn not ready: the database has no inventory tables, or not the newest; if DATABASE_URL names the right database, run "inventory migrate" as the owner of the tables (in DATABASE_URL); if nothing is to migrate, "inventory check" says what is missing',
        'info ready',
      ]);
  });

  it('returns 503 to the bootstrap key, not 401, until the key is stored', async () => {
    const service = await startService();
    const prisma = service.app.get(PrismaService);
    prisma.isPrepared = false; // as at the start
    expect((await service.list()).status).toBe(200);
    await service.sql('UPDATE api_key SET revoked_at = now()');
    expect((await service.list()).status).toBe(401);
    prisma.isPrepared = true;
    await service.sql('DELETE FROM api_key');
    expect((await service.list()).status).toBe(401);
    prisma.isPrepared = false;
    expect((await service.list()).status).toBe(503);
    const headers = { Authorization: `Bearer ${service.key}x` };
    expect((await fetch(`${service.url}/v1/inventory`, { headers })).status).toBe(401);
  });

  it('is 503 while the tables are missing, and stores the bootstrap key again when they are back', async () => {
    const service = await startService();
    await service.sql('DROP SCHEMA public CASCADE; CREATE SCHEMA public');
    expect(await probe(service.url, 'ready')).toEqual(UNAVAILABLE);
    await applyMigrations(service.databaseUrl);
    await expect.poll(() => probe(service.url, 'ready')).toEqual(OK);
    expect((await service.list()).text).toBe('[]');
  });
});
