import { once } from 'node:events';
import { readFileSync, readdirSync } from 'node:fs';
import { Agent, type IncomingMessage, request } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sendRaw } from '../support/http-client.ts';
import { type TestService, startService } from '../support/service.ts';

type Samples = ReadonlyMap<string, number>;

const REQUESTS = 'http_server_request_duration_seconds_count';

describe('GET /metrics', { timeout: 60_000 }, () => {
  const agent = new Agent({ keepAlive: true, maxSockets: 16 });
  let service: TestService;

  beforeAll(async () => {
    service = await startService({ settings: { REQUEST_DEADLINE_MS: '7000' } });
    await service.stock(...Array.from({ length: 20 }, (_, petId) => [petId, 1] as const));
  });
  afterAll(async () => {
    agent.destroy();
    await service.stop();
  });

  const bearer = () => ({ Authorization: `Bearer ${service.key}` });

  async function exposition(): Promise<string> {
    return (await fetch(`${service.url}/metrics`, { headers: bearer() })).text();
  }

  /** Every sample by its name and labels as they are written. */
  async function scrape(): Promise<Samples> {
    const samples = [...(await exposition()).matchAll(/^(\w+(?:\{.*\})?) (\S+)$/gm)];
    return new Map(samples.map(([, name = '', value]) => [name, Number(value)]));
  }

  /** What rose between two scrapes, of the samples whose names begin so; the scrapes themselves left out. */
  function rises(before: Samples, after: Samples, name: string): Record<string, number> {
    const names = [...after.keys()].filter((each) => each.startsWith(name) && !each.includes('route="/metrics"'));
    const rise = (each: string) => (after.get(each) ?? 0) - (before.get(each) ?? 0);
    return Object.fromEntries(
      names.map((each) => [each.slice(name.length), rise(each)] as const).filter(([, by]) => by !== 0),
    );
  }

  async function ask(method: string, path: string, headers: Record<string, string> = {}, body?: string): Promise<void> {
    const sent = request({ host: '127.0.0.1', port: service.port, method, path, headers, agent }).end(body);
    const [answer] = (await once(sent, 'response')) as [IncomingMessage];
    await once(answer.resume(), 'end');
  }

  it('wants a key with the scope metrics:read', async () => {
    await service.addKey('reads-and-writes');
    const headers = { Authorization: 'Bearer reads-and-writes' };
    const refused = await fetch(`${service.url}/metrics`, { headers });
    expect([refused.status, await refused.json()]).toMatchObject([403, { code: 'forbidden' }]);
    const taken = await fetch(`${service.url}/metrics`, { headers: bearer() });
    expect(taken.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
  });

  it('counts exactly what a load generator sent, by method, route and status', async () => {
    const before = await scrape();
    const json = { ...bearer(), 'Content-Type': 'application/json' };
    const kinds: readonly (readonly [times: number, send: (n: number) => Promise<unknown>])[] = [
      [400, () => ask('GET', '/v1/inventory', bearer())],
      [30, () => ask('HEAD', '/v1/inventory', bearer())],
      [200, (n) => ask('PATCH', `/v1/inventory/${n % 20}`, json, '{"quantity":5}')],
      [17, (n) => ask('PATCH', `/v1/inventory/${1000 + n}`, json, '{"quantity":5}')],
      [13, () => ask('PATCH', '/v1/inventory/1', json, '{"quantity":-1}')],
      [11, () => ask('PATCH', '/v1/inventory/1', { ...json, 'If-Match': '"sold-9"' }, '{"quantity":1}')],
      [19, () => ask('GET', '/v1/inventory')],
      [7, () => ask('GET', '/v1/inventory', { Authorization: 'Bearer nobody' })],
      [23, (n) => ask('GET', `/nowhere/${n}`)],
      [5, () => ask('PROPFIND', '/v1/inventory')],
      [3, () => ask('OPTIONS', '/v1/inventory')],
      [9, () => ask('GET', '/health/live')],
      [6, () => sendRaw(service.port, 'nonsense\r\n\r\n')],
      [4, () => sendRaw(service.port, `GET / HTTP/1.1\r\nX: ${'x'.repeat(9_000)}\r\n\r\n`)],
    ];
    const load = kinds.flatMap(([times, send]) => Array.from({ length: times }, (_, n) => ({ send, n })));
    await Promise.all(load.map(({ send, n }) => send(n)));
    const after = await scrape();

    expect(rises(before, after, REQUESTS)).toEqual({
      '{method="GET",route="/v1/inventory",status="200"}': 400,
      '{method="HEAD",route="/v1/inventory",status="200"}': 30,
      '{method="PATCH",route="/v1/inventory/:petId",status="200"}': 200,
      '{method="PATCH",route="/v1/inventory/:petId",status="404"}': 17,
      '{method="PATCH",route="/v1/inventory/:petId",status="400"}': 13,
      '{method="PATCH",route="/v1/inventory/:petId",status="412"}': 11,
      '{method="GET",route="/v1/inventory",status="401"}': 26,
      '{method="GET",route="unmatched",status="404"}': 23,
      '{method="_OTHER",route="unmatched",status="405"}': 5,
      '{method="OPTIONS",route="unmatched",status="204"}': 3,
      '{method="GET",route="/health/live",status="200"}': 9,
    });
    expect(rises(before, after, 'http_server_malformed_requests_total')).toEqual({
      '{code="bad_request"}': 6,
      '{code="header_fields_too_large"}': 4,
    });
    expect(rises(before, after, 'inventory_errors_total')).toEqual({
      '{code="not_found"}': 17 + 23,
      '{code="validation_failed"}': 13,
      '{code="precondition_failed"}': 11,
      '{code="unauthorized"}': 19 + 7,
      '{code="method_not_allowed"}': 5,
    });
    expect(rises(before, after, 'inventory_unauthorized_total')).toEqual({
      '{reason="no_key"}': 19,
      '{reason="unknown_key"}': 7,
    });
    const served = rises(before, after, 'inventory_round_trip_batch_size_sum');
    expect(served['{trip="key_check"}']).toBe(400 + 30 + 200 + 17 + 13 + 11 + 7 + 1); // and the second scrape
    expect(served['{trip="updates"}']).toBe(200 + 17 + 11);
    const trips = rises(before, after, 'inventory_round_trip_batch_size_count');
    expect(trips).toEqual(rises(before, after, 'inventory_round_trip_duration_seconds_count'));
    expect(trips['{trip="updates"}']).toBeLessThan(200 + 17 + 11);
    const rise = (name: string) => rises(before, after, name)[''] ?? 0;
    const readings = rise('inventory_list_readings_total');
    expect(readings).toBeGreaterThan(0);
    expect(readings).toBeLessThanOrEqual(trips['{trip="list"}'] ?? 0);
    expect(rise('inventory_list_reuses_total') + (served['{trip="list"}'] ?? 0)).toBe(400 + 30);
    expect(after.get('inventory_list_bytes')).toBe((await service.list()).bytes.length);
    expect(after.get('http_server_active_requests')).toBe(1);
  });

  it('has no more series after 10,000 random paths', async () => {
    await ask('GET', '/nowhere');
    const before = await scrape();
    const word = () => Math.random().toString(36).slice(2);
    for (let round = 0; round < 100; round++) {
      const paths = Array.from({ length: 100 }, (_, n) => (n % 2 ? `/v1/${word()}` : `/${word()}/${word()}?${word()}`));
      await Promise.all(paths.map((path) => ask('GET', path)));
    }
    const after = await scrape();
    const ours = (samples: Samples) => [...samples.keys()].filter((name) => /^(http_server|inventory)_/.test(name));
    expect(ours(after)).toEqual(ours(before));
    expect(rises(before, after, REQUESTS)).toEqual({ '{method="GET",route="unmatched",status="404"}': 10_000 });
  });

  it('shows no failures of a route from its first request on, so that the first failure is a rise', async () => {
    await ask('GET', '/v1/inventory', bearer());
    const samples = await scrape();
    for (const status of [500, 503]) {
      expect(samples.get(`${REQUESTS}{method="GET",route="/v1/inventory",status="${status}"}`)).toBe(0);
    }
  });

  it('counts a client that breaks the connection before its answer as 499', async () => {
    await service.sql('UPDATE inventory_item SET quantity = quantity + 1'); // or the list would not be reloaded
    const blocker = await service.database.session('LOCK TABLE inventory_item IN ACCESS EXCLUSIVE MODE');
    const waiting = `SELECT FROM pg_locks WHERE NOT granted AND relation = 'inventory_item'::regclass`;
    const before = await scrape();
    const leaving = request({ host: '127.0.0.1', port: service.port, path: '/v1/inventory', headers: bearer() });
    leaving.on('error', () => undefined).end();
    await expect.poll(() => service.sql(waiting), { timeout: 5_000 }).not.toEqual([]);
    leaving.socket?.resetAndDestroy(); // a mere FIN says that no more is sent, and the answer is still awaited
    await expect.poll(async () => (await scrape()).get('http_server_active_requests'), { timeout: 5_000 }).toBe(1);
    await blocker.end();
    const gone = { '{method="GET",route="/v1/inventory",status="499"}': 1 };
    expect(rises(before, await scrape(), REQUESTS)).toEqual(gone);
  });

  it('has every name and label that the dashboard and the alert rules use', async () => {
    await Promise.all([ask('GET', '/v1/inventory', bearer()), sendRaw(service.port, 'nonsense\r\n\r\n')]);
    const known = new Map<string, Set<string>>();
    for (const [, name = '', labels = ''] of (await exposition()).matchAll(/^(\w+)(?:\{(.*)\})? /gm)) {
      const names = known.get(name) ?? new Set(['job', 'instance']); // which Prometheus adds
      for (const [, label = ''] of labels.matchAll(/(\w+)="/g)) names.add(label);
      known.set(name, names);
    }
    const used = ['grafana', 'prometheus'].flatMap((folder) =>
      queriesIn(new URL(`../../deploy/${folder}/`, import.meta.url)),
    );
    expect(used.length).toBeGreaterThan(30);
    const unknown = used.filter(
      ({ name, labels }) => labels.some((label) => !known.get(name)?.has(label)) || !known.has(name),
    );
    expect(unknown).toEqual([]);
  });
});

/** Every selector of a metric of ours in the files of a folder, with the labels that it asks for. */
function queriesIn(folder: URL): { name: string; labels: string[] }[] {
  return readdirSync(folder).flatMap((file) => {
    const text = readFileSync(new URL(file, folder), 'utf8').replaceAll('\\"', '"');
    const selectors = text.matchAll(/(?<![\w:])((?:http_server|inventory|nodejs|process)_\w+)(?:\{([^}]*)\})?/g);
    return [...selectors].map(([, name = '', labels = '']) => ({
      name,
      labels: [...labels.matchAll(/(\w+)\s*(?:=|!)/g)].map(([, label = '']) => label),
    }));
  });
}
