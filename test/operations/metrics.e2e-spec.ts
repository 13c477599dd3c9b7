import { once } from 'node:events';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { PrismaService } from '../../src/prisma.service.ts';
import { Log } from '../../src/operations/log.ts';
import { listBytes } from '../http/raw-requests.ts';
import { answer, whole } from '../support/answers.ts';
import { Connection, ask, sendRaw } from '../support/http-client.ts';
import { startFaultyPostgres } from '../support/postgres-server.ts';
import { type TestService, startService } from '../support/service.ts';

const REQUESTS = 'http_server_request_duration_seconds_count';
const OTHER_METHODS = ['POST', 'PUT', 'DELETE', 'TRACE', 'CONNECT'];

describe('GET /metrics', () => {
  let service: TestService;
  beforeAll(async () => {
    service = await startService({ settings: { REQUEST_DEADLINE_MS: '7000' } });
    await scrape();
    // The service notes the first use of a key beside the request.
    const unused = () => service.sql('SELECT FROM api_key WHERE last_used_at IS NULL');
    await vi.waitUntil(async () => (await unused()).length === 0, { timeout: 15_000 });
  });
  beforeEach(async () => {
    await service.sql('TRUNCATE inventory_item'); // and so the next list is read as a whole
    await service.stock(...Array.from({ length: 20 }, (_, petId) => [petId, 1] as const));
  });

  const bearer = () => ({ Authorization: `Bearer ${service.key}` });

  /** All samples by name and labels. */
  async function scrape(): Promise<ReadonlyMap<string, number>> {
    const exposition = await fetch(`${service.url}/metrics`, { headers: bearer() });
    const samples = [...(await exposition.text()).matchAll(/^(\w+(?:\{.*\})?) (\S+)$/gm)];
    return new Map(samples.map(([, name = '', value]) => [name, Number(value)]));
  }

  /** How much each sample of a name rises while `act` runs. The scrapes are not counted. */
  async function risesOf(act: () => Promise<unknown>): Promise<(name: string) => Record<string, number>> {
    const before = await scrape();
    await act();
    const after = await scrape();
    return (name) => {
      const samples = [...after].filter(([each]) => each.startsWith(name) && !each.includes('route="/metrics"'));
      const rises = samples.map(([each, value]) => [each.slice(name.length), value - (before.get(each) ?? 0)] as const);
      return Object.fromEntries(rises.filter(([, by]) => by !== 0));
    };
  }

  const send = (method: string, target: string, headers: Record<string, string> = {}, body = '') =>
    ask(service.port, { method, target, headers, body });

  it('requires a key with the scope metrics:read', async () => {
    await service.addKey('reads-and-writes');
    const headers = { Authorization: 'Bearer reads-and-writes' };
    const refused = await fetch(`${service.url}/metrics`, { headers });
    expect([refused.status, await refused.json()]).toMatchObject([403, { code: 'forbidden' }]);
    const { body, ...taken } = whole(await send('GET', '/metrics', bearer()));
    const own = { 'content-type': 'text/plain; version=0.0.4; charset=utf-8', 'cache-control': 'no-store' };
    expect({ ...taken, body: '' }).toEqual(answer(200, own));
    expect(body.endsWith('\n')).toBe(true); // the format requires it
  });

  it('counts every request exactly, by method, route and status, and all unknown paths in one series', async () => {
    const json = { ...bearer(), 'Content-Type': 'application/json' };
    const kinds: readonly (readonly [times: number, act: (n: number) => Promise<unknown>])[] = [
      [100, () => send('GET', '/v1/inventory', bearer())],
      [30, () => send('HEAD', '/v1/inventory', bearer())],
      [60, (n) => send('PATCH', `/v1/inventory/${n % 20}`, json, '{"quantity":5}')],
      [17, (n) => send('PATCH', `/v1/inventory/${1000 + n}`, json, '{"quantity":5}')],
      [13, () => send('PATCH', '/v1/inventory/1', json, '{"quantity":-1}')],
      [11, () => send('PATCH', '/v1/inventory/1', { ...json, 'If-Match': '"sold-9"' }, '{"quantity":1}')],
      [19, () => send('GET', '/v1/inventory')],
      [7, () => send('GET', '/v1/inventory', { Authorization: 'Bearer nobody' })],
      [23, (n) => send('GET', n % 2 ? `/nowhere/${n}?${n}` : `/v1/${n}`)],
      [5, () => send('PROPFIND', '/v1/inventory')],
      [5, (n) => send(OTHER_METHODS[n] ?? '', '/v1/inventory')],
      [3, () => send('OPTIONS', '/v1/inventory')],
      [9, () => send('GET', '/health/live')],
      [6, () => sendRaw(service.port, 'nonsense\r\n\r\n')],
      [4, () => sendRaw(service.port, `GET / HTTP/1.1\r\nX: ${'x'.repeat(17_000)}\r\n\r\n`)],
    ];
    const startedAt = performance.now();
    const rises = await risesOf(async () => {
      for (const [times, act] of kinds) await Promise.all(Array.from({ length: times }, (_, n) => act(n)));
    });

    expect(rises(REQUESTS)).toEqual({
      '{method="GET",route="/v1/inventory",status="200"}': 100,
      '{method="HEAD",route="/v1/inventory",status="200"}': 30,
      '{method="PATCH",route="/v1/inventory/:petId",status="200"}': 60,
      '{method="PATCH",route="/v1/inventory/:petId",status="404"}': 17,
      '{method="PATCH",route="/v1/inventory/:petId",status="400"}': 13,
      '{method="PATCH",route="/v1/inventory/:petId",status="412"}': 11,
      '{method="GET",route="/v1/inventory",status="401"}': 26,
      '{method="GET",route="unmatched",status="404"}': 23,
      '{method="_OTHER",route="unmatched",status="405"}': 5,
      ...Object.fromEntries(OTHER_METHODS.map((each) => [`{method="${each}",route="unmatched",status="405"}`, 1])),
      '{method="OPTIONS",route="unmatched",status="204"}': 3,
      '{method="GET",route="/health/live",status="200"}': 9,
    });
    const malformed = { '{code="bad_request"}': 6, '{code="header_fields_too_large"}': 4 };
    expect(rises('http_server_malformed_requests_total')).toEqual(malformed);
    expect(rises('inventory_errors_total')).toEqual({
      '{code="not_found"}': 17 + 23,
      '{code="validation_failed"}': 13,
      '{code="precondition_failed"}': 11,
      '{code="unauthorized"}': 19 + 7,
      '{code="method_not_allowed"}': 5 + OTHER_METHODS.length,
    });
    expect(rises('inventory_unauthorized_total')).toEqual({ '{reason="no_key"}': 19, '{reason="unknown_key"}': 7 });
    const served = rises('inventory_round_trip_batch_size_sum');
    expect(served['{trip="key_check"}']).toBe(100 + 30 + 60 + 17 + 13 + 11 + 7 + 1); // the last 1 is the second scrape
    expect(served['{trip="updates"}']).toBe(60 + 17 + 11);
    const trips = rises('inventory_round_trip_batch_size_count');
    expect(trips).toEqual(rises('inventory_round_trip_duration_seconds_count'));
    expect(trips['{trip="updates"}']).toBeLessThan(60 + 17 + 11);
    const passed = (performance.now() - startedAt) / 1_000;
    const { '{trip="updates"}': seconds } = rises('inventory_round_trip_duration_seconds_sum'); // one after another
    expect(seconds).toBeGreaterThan(0);
    expect(seconds).toBeLessThan(passed);
    const requests = Object.entries(rises('http_server_request_duration_seconds_sum'));
    const waited = requests.reduce((sum, [labels, each]) => sum + (labels.includes('PATCH') ? each : 0), 0);
    expect(waited).toBeGreaterThan(seconds ?? Infinity); // each update waited for its round trip
    expect(waited).toBeLessThan((60 + 17 + 13 + 11) * passed);
    const { '': readings } = rises('inventory_list_readings_total');
    expect(readings).toBeGreaterThan(0);
    expect(readings).toBeLessThanOrEqual(trips['{trip="list"}'] ?? 0);
    const { '': reuses = 0 } = rises('inventory_list_reuses_total');
    expect(reuses + (served['{trip="list"}'] ?? 0)).toBe(100 + 30);
    const samples = await scrape();
    expect(samples.get('inventory_list_bytes')).toBe((await service.list()).bytes.length);
    expect(samples.get('http_server_active_requests')).toBe(1);
    expect(samples.get('inventory_round_trip_failures_total{trip="updates"}')).toBe(0); // there before the first failure
    const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };
    expect(samples.get(`inventory_build_info{version="${version}"}`)).toBe(1);
    // Otherwise Prometheus would not see the first failure as an increase.
    for (const status of [500, 503])
      for (const method of ['GET', 'HEAD'])
        expect(samples.get(`${REQUESTS}{method="${method}",route="/v1/inventory",status="${status}"}`)).toBe(0);
    expect(samples.get('inventory_unauthorized_total{reason="revoked_key"}')).toBe(0);
    for (const name of ['inventory_errors_total', 'http_server_malformed_requests_total'])
      expect(samples.get(`${name}{code="outcome_unknown"}`)).toBe(0);
  });

  it('shows how the connections of the pool are used, and how many log lines were lost', async () => {
    const { pool } = service.app.get(PrismaService);
    const usage = async () => {
      const samples = await scrape();
      return ['busy', 'idle', 'waiting'].map((each) => samples.get(`inventory_database_pool_${each}`));
    };
    const taken = await Promise.all(Array.from({ length: 4 }, () => pool.connect()));
    const giveBack = () => taken.splice(0).forEach((each) => each.release());
    onTestFinished(giveBack);
    const more = pool.connect().then((each) => each.release());
    expect(await usage()).toEqual([4, 0, 1]);
    giveBack();
    await more;
    expect(await usage()).toEqual([0, 4, 0]);
    service.app.get(Log).dropped += 3;
    expect((await scrape()).get('inventory_log_lines_dropped_total')).toBe(3);
  });

  it('counts a list that only read the changes', async () => {
    await service.list();
    const rises = await risesOf(async () => {
      await service.update(1, 77);
      for (let n = 0; n < 3; n++) await service.list();
    });
    const [readings, patches = 0, reuses = 0] = ['readings', 'patches', 'reuses'].map(
      (each) => rises(`inventory_list_${each}_total`)[''],
    );
    expect([readings, patches + reuses]).toEqual([undefined, 3]);
    expect(patches).toBeGreaterThan(0); // PostgreSQL may commit something else meanwhile
  });

  it('counts audits by their results, which are there before the first audit', async () => {
    const { audits } = service;
    await service.list(); // the stock was truncated, so there is no list to compare
    const rises = await risesOf(async () => {
      const ended = once(audits, 'end');
      audits.firstMs = 0;
      await service.list();
      audits.firstMs = Infinity;
      await ended;
    });
    expect(rises('inventory_list_audits_total')).toEqual({ '{result="equal"}': 1 });
    for (const result of ['different', 'index', 'none'])
      expect((await scrape()).get(`inventory_list_audits_total{result="${result}"}`)).toBe(0);
  });

  it('counts a request as 499 when its client disconnects before the response', async () => {
    await service.sql('UPDATE inventory_item SET quantity = quantity + 1'); // the service must read the list again
    const blocker = await service.database.session('LOCK TABLE inventory_item IN ACCESS EXCLUSIVE MODE');
    const rises = await risesOf(async () => {
      const connection = (await Connection.open(service.port)).send(listBytes(service.key));
      await expect.poll(() => service.database.waitingForLocks()).toBe(1);
      connection.reset(); // after a FIN the client would still wait for the response
      await expect.poll(async () => (await scrape()).get('http_server_active_requests')).toBe(1);
    });
    await blocker.end();
    await service.list(); // when the reading under way has ended
    expect(rises(REQUESTS)).toEqual({ '{method="GET",route="/v1/inventory",status="499"}': 1 });
  });
});

describe('GET /metrics while the database is frozen', () => {
  it('still has all that the dashboard and the alert rules use, for a key that read it before', async () => {
    const postgres = await startFaultyPostgres();
    const settings = { REQUEST_DEADLINE_MS: '1500' };
    const service = await startService({ databaseUrl: postgres.url, settings });
    await service.addKey('reads-metrics', { scopes: ['metrics:read'] });
    const scrape = (key: string) =>
      ask(service.port, { target: '/metrics', headers: { Authorization: `Bearer ${key}` } });
    expect((await scrape('reads-metrics')).status).toBe(200);
    expect((await service.list()).status).toBe(200);
    expect((await service.update(1, 1)).status).toBe(404);
    await sendRaw(service.port, 'nonsense\r\n\r\n');
    setFlagsFromString('--expose-gc');
    (runInNewContext('gc') as () => void)(); // its series begin with the first collection
    await expect.poll(async () => (await scrape('reads-metrics')).text).toMatch(/^nodejs_gc_duration_seconds_sum/m);

    postgres.freeze();
    expect((await service.list()).status).toBe(503);
    const refused = scrape(service.key); // it has read no metrics before, and waits until its deadline
    const { status, text } = await Promise.race([refused, scrape('reads-metrics')]);
    expect(status).toBe(200);
    expectSeriesInUse(text);
    expect(text).toMatch(/^http_server_request_duration_seconds_count\{.*status="503"\} 1$/m);
    expect(text).toMatch(/^inventory_round_trip_failures_total\{trip="key_check"\} [1-9]/m);
    expect((await refused).status).toBe(503);
    const now = performance.now.bind(performance);
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + 55 * 60_000);
    onTestFinished(() => clock.mockRestore());
    expect((await scrape('reads-metrics')).status).toBe(200); // for an hour
    clock.mockImplementation(() => now() + 61 * 60_000);
    expect((await scrape('reads-metrics')).status).toBe(503);
    clock.mockRestore();

    postgres.thaw();
    await expect.poll(async () => (await service.list()).status).toBe(200);
    const failures =
      /^http_server_request_duration_seconds_count\{method="GET",route="\/v1\/inventory",status="503"\} [1-9]/m;
    expect((await scrape('reads-metrics')).text).toMatch(failures); // later requests do not reset it
    await service.database.sql(`UPDATE api_key SET revoked_at = now() WHERE scopes = '{metrics:read}'`);
    expect((await scrape('reads-metrics')).status).toBe(401);
    postgres.freeze();
    expect((await scrape('reads-metrics')).status).toBe(503); // no longer for this key
  });
});

/** Compares the names and labels that the dashboard and the alert rules use with those of the exposition. */
function expectSeriesInUse(exposition: string): void {
  const known = new Set(namesAndLabels(exposition.matchAll(/^(\w+)(?:\{(.*)\})? /gm)));
  const files = ['grafana', 'prometheus'].flatMap((folder) => {
    const path = join('deploy', folder);
    return readdirSync(path).map((file) => readFileSync(join(path, file), 'utf8').replaceAll('\\"', '"'));
  });
  const selector = /(?<![\w:])((?:http_server|inventory|nodejs|process)_\w+)(?:\{([^}]*)\})?/g;
  const inUse = namesAndLabels(files.join('\n').matchAll(selector));
  expect(inUse.length).toBeGreaterThan(30);
  const addedByPrometheus = /\{(job|instance)\b/;
  expect(inUse.filter((each) => !known.has(each) && !addedByPrometheus.test(each))).toEqual([]);
}

/** Each name, and each name with one of its labels, such as `name{label` and `name{label="value"`. */
function namesAndLabels(series: Iterable<RegExpMatchArray>): string[] {
  return Array.from(series).flatMap(([, name = '', labels = '']) => [
    name,
    ...Array.from(labels.matchAll(/\w+(?==~|!)|\w+="[^"]*"/g), ([label]) => `${name}{${label}`),
    ...Array.from(labels.matchAll(/\w+(?==")/g), ([label]) => `${name}{${label}`),
  ]);
}
