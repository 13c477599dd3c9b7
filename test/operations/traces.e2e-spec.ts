import { hash, randomBytes } from 'node:crypto';
import type { RequestListener } from 'node:http';
import { diag } from '@opentelemetry/api';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { makeKey } from '../../src/keys/api-key-format.ts';
import { readSettings } from '../../src/settings.ts';
import { SERVICES } from '../inventory-service/services.ts';
import { Database, createDatabase } from '../support/database.ts';
import { type HeaderLines, Connection, ask, sendRaw } from '../support/http-client.ts';
import { type LogReader, readLog } from '../support/log-reader.ts';
import { type ReceivedSpan, startCollector } from '../support/otlp-collector.ts';
import { ServiceProcess } from '../support/service-process.ts';
import { type TestService, startService } from '../support/service.ts';
import { itemText } from '../support/stock.ts';

const TRACE_ID = '0af7651916cd43dd8448eb211c80319c';
const PARENT_ID = 'b7ad6b7169203331';
const sampled = (traceId: string): HeaderLines => [['traceparent', `00-${traceId}-${PARENT_ID}-01`]];
/** Other traces are not sent. */
const CALLERS_ONLY = { OTEL_TRACES_SAMPLER: 'parentbased_always_off' };
const text = expect.any(String) as string;

type Collector = Awaited<ReturnType<typeof startCollector>>;

/** The packages of OpenTelemetry read the variables of the process. */
async function start(variables: Readonly<Record<string, string>>, FAST = 'on') {
  for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
  diag.disable(); // of the service before
  const log = await readLog();
  const service = await startService({ settings: { FAST, LOG_LEVEL: 'info', ...variables } });
  await service.stock([1, 1]);
  return { log, service, database: service.database };
}
/** Two services with traces in one process would trace each other's round trips. */
async function stop(service: TestService): Promise<void> {
  await service.stop();
  vi.unstubAllEnvs();
}
/** Until the spans of all requests so far are sent, which is every 5 s. */
async function untilSent({ port }: TestService, { spans }: Collector): Promise<void> {
  const id = randomBytes(16).toString('hex');
  await ask(port, { target: '/last', headers: sampled(id) });
  await expect.poll(() => spans.some(({ traceId }) => traceId === id)).toBe(true);
}
function attributesOf({ url }: Database) {
  const { hostname, port, pathname } = new URL(url);
  const server = { 'server.address': hostname, 'server.port': Number(port) };
  return { 'db.system.name': 'postgresql', 'db.namespace': pathname.slice(1), ...server };
}

const bearerOf = ({ key }: TestService): HeaderLines => [['Authorization', `Bearer ${key}`]];

describe.each(SERVICES)('traces of %s', (_, FAST) => {
  let collector: Collector;
  let log: LogReader;
  let service: TestService;
  let database: Database;
  beforeAll(async () => {
    collector = await startCollector();
    const endpoint = { OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/` };
    ({ log, service, database } = await start({ ...endpoint, ...CALLERS_ONLY }, FAST));
  });
  afterAll(() => stop(service));

  it('has a span of each request and of each round trip that it needs, and the log has its trace', async () => {
    const ids = Array.from({ length: 5 }, () => randomBytes(16).toString('hex'));
    const [ofList = [], ofUpdate = [], of401 = [], of404 = [], of400 = []] = ids.map(sampled);
    expect((await service.list(ofList)).status).toBe(200);
    expect((await service.update(1, 7, ofUpdate)).status).toBe(200);
    const unknown: HeaderLines = [['Authorization', `Bearer ${makeKey()}`], ...of401];
    expect((await ask(service.port, { target: '/v1/inventory', headers: unknown })).status).toBe(401);
    expect((await ask(service.port, { target: '/secret?query', headers: of404 })).status).toBe(404);
    const withoutHost = `GET / HTTP/1.1\r\n${of400.map((header) => header.join(': ')).join('')}\r\nConnection: close\r\n\r\n`;
    expect(await sendRaw(service.port, withoutHost)).toMatch(/^HTTP\/1.1 400 /);
    await service.list();
    await untilSent(service, collector);
    expect(collector.requests[0]).toEqual({ url: '/v1/traces', authorization: undefined });

    const logged = log.lines().filter(({ msg }) => msg === 'request');
    const lines = logged.slice(logged.findIndex(({ traceId }) => traceId === ids[0]));
    expect(lines.slice(0, 5).map(({ traceId }) => traceId)).toEqual(ids);
    expect(lines[5]?.['traceId']).toMatch(/^[0-9a-f]{32}$/); // a trace of its own, although it is not sent
    const keyId = lines[0]?.['keyId'];
    const http = { 'http.request.method': 'GET', 'url.scheme': 'http' };
    const get = { ...http, 'http.route': '/v1/inventory' };
    const request = { kind: 'SERVER', parentId: PARENT_ID, links: [], hasFailed: false };
    const spans = ids.map((id) => collector.spans.filter(({ traceId }) => traceId === id));
    const ofRequests = spans.map((each) => each.find(({ kind }) => kind === 'SERVER'));
    expect(ofRequests).toEqual(
      [
        {
          name: 'GET /v1/inventory',
          attributes: { ...get, 'http.response.status_code': 200, 'inventory.key_id': keyId },
        },
        {
          name: 'PATCH /v1/inventory/:petId',
          attributes: {
            ...http,
            'http.request.method': 'PATCH',
            'http.route': '/v1/inventory/:petId',
            'http.response.status_code': 200,
            'inventory.key_id': keyId,
          },
        },
        { name: 'GET /v1/inventory', attributes: { ...get, 'http.response.status_code': 401 } },
        { name: 'GET', attributes: { ...http, 'http.response.status_code': 404 } },
        { name: 'GET', attributes: { ...http, 'http.response.status_code': 400 } },
      ].map((expected) => expect.objectContaining({ ...request, ...expected }) as unknown),
    );
    for (const [at, span] of ofRequests.entries()) {
      const durationMs = Number((span?.endedAt ?? 0n) - (span?.startedAt ?? 0n)) / 1e6;
      expect(Math.abs(durationMs - Number(lines[at]?.['durationMs']))).toBeLessThan(0.01);
    }

    // Each trip is in the trace of its request. Prisma's statements are in the trip that sends them.
    const isStatement = (span: ReceivedSpan) => 'db.operation.name' in span.attributes;
    const trips = spans.map((each, at) =>
      each.filter((span) => span.parentId === ofRequests[at]?.spanId && !isStatement(span)),
    );
    const names = [['key_check', 'list'], ['key_check', 'updates'], ['key_check'], [], []];
    expect(trips.map((each) => each.map(({ name }) => name).toSorted())).toEqual(names);
    for (const [at, each] of trips.entries()) {
      const trip = { kind: 'CLIENT', parentId: ofRequests[at]?.spanId, links: [], hasFailed: false };
      for (const span of each)
        expect(span).toEqual(expect.objectContaining({ ...trip, attributes: attributesOf(database) }));
    }
    const statementsOf = (at: number, name: string) => {
      const trip = trips[at]?.find((span) => span.name === name);
      const own = spans[at]?.filter(({ parentId }) => parentId === trip?.spanId) ?? [];
      for (const span of own)
        expect(span.attributes).toEqual({ ...attributesOf(database), 'db.operation.name': span.name });
      return own.map((span) => span.name);
    };
    expect(statementsOf(0, 'list')).toEqual(['LOCK', 'SELECT', 'COMMIT']);
    expect(statementsOf(1, 'updates')).toEqual(FAST === 'on' ? [] : ['SELECT', 'SELECT', 'INSERT', 'UPDATE', 'COMMIT']);
    const { 'service.name': name, 'service.version': version } = collector.resources[0] ?? {};
    expect({ name, version }).toEqual({ name: 'inventory', version: text });
  });

  it('has a trip in the trace of the first request that it serves, and a link to it in the others', async () => {
    const ids = Array.from({ length: 4 }, () => randomBytes(16).toString('hex'));
    const lock = await database.session('LOCK TABLE api_key');
    const answers = [service.list(sampled(String(ids[0])))];
    await expect.poll(() => database.waitingForLocks()).toBe(1);
    const others = [[], ...ids.slice(1).map(sampled)]; // one is not sampled
    answers.push(...others.map((headers) => service.list(headers)));
    expect((await ask(service.port, { target: '/health/live' })).status).toBe(200); // the service reads it after the others
    await lock.end();
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    await untilSent(service, collector);
    const trips = collector.spans.filter(({ name, traceId }) => name === 'key_check' && ids.includes(traceId));
    expect(trips.map(({ attributes }) => attributes['db.operation.batch.size'])).toEqual([undefined, 4]);
    const found = trips.map(({ spanId, parentId, traceId, links }) => {
      const parent = collector.spans.find((span) => span.spanId === parentId);
      const isLinked = (span: ReceivedSpan) =>
        span.links.some((link) => link.spanId === spanId && link.traceId === traceId);
      const linked = collector.spans.filter(isLinked);
      expect([parent, ...linked].map((span) => span?.kind)).toEqual([parent, ...linked].map(() => 'SERVER'));
      return { of: parent?.traceId, traceId, links, linked: linked.map((span) => span.traceId).toSorted() };
    });
    const [first, second] = ids;
    expect(found).toEqual([
      { of: first, traceId: first, links: [], linked: [] },
      { of: second, traceId: second, links: [], linked: ids.slice(2).toSorted() },
    ]);
  });

  it('has the SQLSTATE of a trip that failed', async () => {
    await database.sql('UPDATE inventory_item SET quantity = quantity + 1'); // a list reads it again
    const lock = await database.session('LOCK TABLE inventory_item');
    const id = randomBytes(16).toString('hex');
    expect((await service.list(sampled(id))).status).toBe(503);
    await lock.end();
    await untilSent(service, collector);
    const [request, trip] = ['GET /v1/inventory', 'list'].map((name) =>
      collector.spans.find((span) => span.name === name && span.traceId === id),
    );
    expect(request).toMatchObject({ hasFailed: true, attributes: { 'error.type': 'service_unavailable' } });
    expect(trip).toMatchObject({
      hasFailed: true,
      attributes: { ...attributesOf(database), 'db.response.status_code': '55P03', 'error.type': '55P03' },
    });
  });
});

describe('traces with all variables', () => {
  const secret = randomBytes(24).toString('base64url');
  let collector: Collector;
  let log: LogReader;
  let service: TestService;
  let database: Database;
  beforeAll(async () => {
    collector = await startCollector();
    ({ log, service, database } = await start({
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9/v1/traces', // does not count beside the next one
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.url}/tenant/v1/traces`,
      OTEL_SERVICE_NAME: 'shop',
      OTEL_RESOURCE_ATTRIBUTES: 'service.namespace=pets',
      OTEL_EXPORTER_OTLP_HEADERS: `authorization=Bearer%20${secret}`,
      OTEL_EXPORTER_OTLP_COMPRESSION: 'zip', // the packages warn of it
    }));
  });
  afterAll(() => stop(service));

  it('has no span of probes and metrics, nor of statements that serve no request', async () => {
    expect((await service.list(sampled(TRACE_ID))).status).toBe(200);
    await expect.poll(() => database.sql('SELECT FROM api_key WHERE last_used_at IS NOT NULL')).toHaveLength(1);
    const probe = async (path: string) =>
      (await ask(service.port, { target: path, headers: [...bearerOf(service), ...sampled(TRACE_ID)] })).status;
    expect([await probe('/health/live?'), await probe('/metrics'), await probe('/metrics?x')]).toEqual([200, 200, 200]);
    await database.sql('ALTER TABLE api_key RENAME TO elsewhere');
    expect(await probe('/health/ready')).toBe(503);
    await database.sql('ALTER TABLE elsewhere RENAME TO api_key');
    await expect.poll(() => log.lines().filter(({ msg }) => msg === 'ready')).toHaveLength(2); // without a probe
    expect(await probe('/health/ready')).toBe(200);
    await untilSent(service, collector);
    const spans = collector.spans.slice(0, -1); // without the last request
    const names = ['COMMIT', 'GET /v1/inventory', 'LOCK', 'SELECT', 'key_check', 'list'];
    expect(spans.map(({ name }) => name).toSorted()).toEqual(names);
    expect(new Set(spans.map(({ traceId }) => traceId))).toEqual(new Set([TRACE_ID]));
    const [line] = log.lines().filter(({ route }) => route === '/metrics');
    expect(line?.['traceId']).toBe(TRACE_ID); // of the caller
  });

  it('sends no key, query, body or password', async () => {
    const { key } = service;
    const bearer = bearerOf(service);
    await service.list([['tracestate', `key=${key}`], ...sampled(TRACE_ID)]);
    await service.update(1, 7, [
      ['Idempotency-Key', 'a-key-for-one-update'],
      ['Change-Reason', 'a reason'],
    ]);
    await ask(service.port, { target: `/v1/inventory/${key}?access_token=${key}`, headers: bearer });
    await ask(service.port, { target: `/${key}`, headers: [['traceparent', key], ...bearer] });
    await untilSent(service, collector);
    expect(new Set(collector.requests.map(({ authorization }) => authorization))).toEqual(
      new Set([`Bearer ${secret}`]),
    );
    expect(collector.resources[0]).toMatchObject({ 'service.name': 'shop', 'service.namespace': 'pets' });
    const names = collector.spans.filter(({ kind }) => kind === 'SERVER').map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['GET', 'GET /v1/inventory', 'PATCH /v1/inventory/:petId']));
    const { password, pathname } = new URL(database.url);
    const others = [
      'access_token',
      'quantity',
      'a-key-for-one-update',
      'a reason',
      ...(pathname.includes(password) ? [] : [password]), // spans have the name of the database
    ];
    for (const text of [key, hash('sha256', key), secret, ...others]) expect(collector.received()).not.toContain(text);
    for (const text of [key, secret]) expect(log.text()).not.toContain(text);
    const warnings = log.lines().filter(({ msg }) => String(msg).startsWith('traces: '));
    expect(warnings).toMatchObject([
      { level: 'warn', msg: expect.stringContaining('COMPRESSION is invalid') as string },
    ]);
  });

  it('are sent to the endpoint of traces alone as it is, also at the end', async () => {
    await service.list(sampled('f'.repeat(32)));
    await service.stop(); // which sends what is left
    expect(collector.spans.some(({ traceId }) => traceId === 'f'.repeat(32))).toBe(true);
    expect(new Set(collector.requests.map(({ url }) => url))).toEqual(new Set(['/tenant/v1/traces']));
  });
});

const COLLECTOR = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9' };

it('without traces, OpenTelemetry is not loaded, and variables without effect are named', async () => {
  const hook = `import { registerHooks } from 'node:module';
    registerHooks({ resolve(name, context, next) {
      const found = next(name, context);
      const [loaded] = /@opentelemetry.[\\w-]+/.exec(found.url) ?? [];
      if (loaded) process.stdout.write(JSON.stringify({ msg: 'loaded', loaded }) + '\\n');
      return found;
    } });`;
  const { url } = await createDatabase();
  const noEffect = { OTEL_BSP_SCHEDULE_DELAY: 'secret', OTEL_METRICS_EXPORTER: '', OTEL_LOGS_EXPORTER: 'secret' };
  const settings = { DATABASE_URL: url, ...COLLECTOR, OTEL_SDK_DISABLED: 'True', ...noEffect };
  const nodeOptions = [`--import=data:text/javascript,${encodeURIComponent(hook)}`];
  const service = await ServiceProcess.running(settings, { nodeOptions });
  const names = new Set(service.lines().flatMap(({ loaded }) => (loaded === undefined ? [] : [loaded])));
  expect([...names]).toEqual(['@opentelemetry/api']); // for prom-client
  const warnings = service.lines().filter(({ msg }) => String(msg).startsWith('variables'));
  const msg = 'variables that have no effect here: OTEL_BSP_SCHEDULE_DELAY, OTEL_LOGS_EXPORTER';
  expect(warnings).toMatchObject([{ level: 'warn', msg }]);
  expect(service.log).not.toContain('secret');
});

it.each([
  [true, {}],
  [true, { OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }], // without an endpoint it is for other programs
  [true, { ...COLLECTOR, OTEL_SDK_DISABLED: 'True' }],
  [true, { ...COLLECTOR, OTEL_TRACES_EXPORTER: 'none' }],
  [false, COLLECTOR],
])('traces are off: %s with %j', (isOff, settings) => {
  expect(readSettings({ DATABASE_URL: 'postgresql://a@b/c', ...settings }).OTEL_SDK_DISABLED).toBe(isOff);
});

/** A full batch is sent at once. */
async function fullBatch({ port }: TestService): Promise<void> {
  const connection = await Connection.open(port);
  for (let sent = 0; sent < 520; sent++) {
    connection.send('GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n');
    expect((await connection.answer()).status).toBe(404);
  }
  connection.destroy();
}

it('a collector that fails changes no response, has one line in the log for each fault, and holds the end for a second', async () => {
  const collector = await startCollector();
  const { log, service } = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
  onTestFinished(() => stop(service));
  const lines = () => log.lines().filter(({ msg }) => String(msg).startsWith('traces'));
  const expectLine = async (answer: RequestListener | undefined, msg: unknown, message = '') => {
    collector.answer = answer;
    const known = lines().length;
    await fullBatch(service);
    await expect.poll(() => lines().length).toBe(known + 1);
    expect(await service.update(1, 7)).toMatchObject({ status: 200, text: itemText(1, 7) });
    const err = message === '' ? {} : { err: { message: expect.stringContaining(message) as string } };
    expect(lines().slice(known)).toMatchObject([{ msg, ...err }]);
  };
  const failing: RequestListener = (_, response) => void response.writeHead(500).end();
  await expectLine(failing, 'traces are lost', 'Internal Server Error');
  const { length } = collector.requests;
  await fullBatch(service);
  await expect.poll(() => collector.requests.length).toBeGreaterThan(length); // it has no further line, as is seen below
  const settings = Buffer.from('000000040000000000', 'hex'); // of HTTP/2
  const grpc = 'traces are lost: this port speaks gRPC, not HTTP; use port 4318';
  await expectLine((_, response) => void response.socket?.end(settings), grpc);
  await expectLine(undefined, 'traces are sent');
  const unreadable: unknown = expect.stringMatching(/^traces: Export succeeded but could not deserialize /);
  await expectLine((_, response) => void response.end('<html>'), unreadable);
  expect(lines().map(({ msg }) => msg)).toEqual(['traces are lost', grpc, 'traces are sent', unreadable]);

  const { promise: released, resolve: release } = Promise.withResolvers<null>();
  collector.answer = (_, response) => void released.then(() => response.end());
  await service.list();
  const from = performance.now();
  await service.app.close();
  const tookMs = performance.now() - from;
  expect(tookMs).toBeGreaterThan(990);
  expect(tookMs).toBeLessThan(8_000); // the packages give up after 10 s
  release(null);
});

it('a collector that wants headers that are written wrong gets no span, and the log has no part of them', async () => {
  const secret = randomBytes(24).toString('base64url');
  const collector = await startCollector();
  const headers = { OTEL_EXPORTER_OTLP_HEADERS: `x-api-key: ${secret}==` };
  const { log, service } = await start({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, ...headers });
  await service.list();
  await service.app.close();
  expect(await log.line(({ msg }) => msg === 'traces are lost')).toMatchObject({
    err: { message: 'Header name must be a valid HTTP token [name]' },
  });
  await stop(service);
  expect(log.text()).not.toContain(secret);
  expect(collector.requests).toEqual([]);
});
