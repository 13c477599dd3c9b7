import { hash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { createServer } from 'node:http2';
import { type AddressInfo } from 'node:net';
import { describe, expect, it } from 'vitest';
import { makeKey } from '../../src/keys/api-key-format.ts';
import { freePort } from '../../dev/free-port.ts';
import { SERVICES } from '../inventory-service/services.ts';
import { Database, createDatabase } from '../support/database.ts';
import { type HeaderLines, Connection, ask, sendRaw } from '../support/http-client.ts';
import { type ReceivedSpan, startCollector } from '../support/otlp-collector.ts';
import { ServiceProcess } from '../support/service-process.ts';
import { atTestEnd } from '../support/test-end.ts';
import { listText } from '../support/stock.ts';

const TRACE_ID = '0af7651916cd43dd8448eb211c80319c';
const PARENT_ID = 'b7ad6b7169203331';
const sampled = (traceId: string): HeaderLines => [['traceparent', `00-${traceId}-${PARENT_ID}-01`]];
/** Other traces are not sent. */
const CALLERS_ONLY = { OTEL_TRACES_SAMPLER: 'parentbased_always_off' };
const text = expect.any(String) as string;

describe.each(SERVICES)('traces of %s', (_, FAST) => {
  const key = randomBytes(24).toString('base64url');
  const bearer = [['Authorization', `Bearer ${key}`]] as const;

  async function start(
    endpoint: string | undefined,
    settings: NodeJS.ProcessEnv = {},
    nodeOptions: readonly string[] = [],
  ) {
    const database = await createDatabase();
    await database.sql("INSERT INTO inventory_item (pet_id, quantity, status) VALUES (1, 1, 'available')");
    const traces = { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, ...settings };
    const environment = { DATABASE_URL: database.url, BOOTSTRAP_API_KEY: key, FAST, ...traces };
    return { database, service: await ServiceProcess.running(environment, { nodeOptions }) };
  }
  const list = ({ port }: ServiceProcess, headers: HeaderLines = []) =>
    ask(port, { target: '/v1/inventory', headers: [...bearer, ...headers] });
  function attributesOf({ url }: Database) {
    const { hostname, port, pathname } = new URL(url);
    const server = { 'server.address': hostname, 'server.port': Number(port) };
    return { 'db.system.name': 'postgresql', 'db.namespace': pathname.slice(1), ...server };
  }
  const update = ({ port }: ServiceProcess, headers: HeaderLines = []) =>
    ask(port, {
      method: 'PATCH',
      target: '/v1/inventory/1',
      headers: [...bearer, ['Content-Type', 'application/json'], ...headers],
      body: '{"quantity":7}',
    });

  it('has a span of each request and of each round trip that it needs, and the log has its trace', async () => {
    const collector = await startCollector();
    const { service, database } = await start(`${collector.url}/`, CALLERS_ONLY);
    const ids = Array.from({ length: 5 }, () => randomBytes(16).toString('hex'));
    const [ofList = [], ofUpdate = [], of401 = [], of404 = [], of400 = []] = ids.map(sampled);
    expect((await list(service, ofList)).status).toBe(200);
    expect((await update(service, ofUpdate)).status).toBe(200);
    const unknown: HeaderLines = [['Authorization', `Bearer ${makeKey()}`], ...of401];
    expect((await ask(service.port, { target: '/v1/inventory', headers: unknown })).status).toBe(401);
    expect((await ask(service.port, { target: '/secret?query', headers: of404 })).status).toBe(404);
    const withoutHost = `GET / HTTP/1.1\r\n${of400.map((header) => header.join(': ')).join('')}\r\nConnection: close\r\n\r\n`;
    expect(await sendRaw(service.port, withoutHost)).toMatch(/^HTTP\/1.1 400 /);
    await list(service);
    expect(await service.terminate()).toBe(0); // which sends what is left
    expect(collector.requests).toEqual([{ url: '/v1/traces', authorization: undefined }]);

    const lines = service.lines().filter(({ msg }) => msg === 'request');
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
    const collector = await startCollector();
    const { service, database } = await start(collector.url, CALLERS_ONLY);
    const ids = Array.from({ length: 4 }, () => randomBytes(16).toString('hex'));
    const lock = await database.session('LOCK TABLE api_key');
    const answers = [list(service, sampled(String(ids[0])))];
    await expect.poll(() => database.waitingForLocks()).toBe(1);
    const others = [[], ...ids.slice(1).map(sampled)]; // one is not sampled
    answers.push(...others.map((headers) => list(service, headers)));
    expect(await service.health('live')).toBe(200); // the service reads it after the others
    await lock.end();
    expect((await Promise.all(answers)).map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
    await service.terminate();
    const trips = collector.spans.filter(({ name }) => name === 'key_check');
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

  it('sends no key, query, body or password', async () => {
    const collector = await startCollector();
    const secret = randomBytes(24).toString('base64url');
    const { service, database } = await start(collector.url, {
      OTEL_SERVICE_NAME: 'shop',
      OTEL_RESOURCE_ATTRIBUTES: 'service.namespace=pets',
      OTEL_EXPORTER_OTLP_HEADERS: `authorization=Bearer%20${secret}`,
      OTEL_EXPORTER_OTLP_COMPRESSION: 'zip', // the packages warn of it
    });
    await list(service, [['tracestate', `key=${key}`], ...sampled(TRACE_ID)]);
    await update(service, [
      ['Idempotency-Key', 'a-key-for-one-update'],
      ['Change-Reason', 'a reason'],
    ]);
    await ask(service.port, { target: `/v1/inventory/${key}?access_token=${key}`, headers: bearer });
    await ask(service.port, { target: `/${key}`, headers: [['traceparent', key], ...bearer] });
    await service.terminate();
    expect(new Set(collector.requests.map(({ authorization }) => authorization))).toEqual(
      new Set([`Bearer ${secret}`]),
    );
    expect(collector.resources[0]).toMatchObject({ 'service.name': 'shop', 'service.namespace': 'pets' });
    const names = collector.spans.filter(({ kind }) => kind === 'SERVER').map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['GET', 'GET /v1/inventory', 'PATCH /v1/inventory/:petId']));
    const { password } = new URL(database.url);
    const others = [
      'access_token',
      'quantity',
      'a-key-for-one-update',
      'a reason',
      ...(password === '' ? [] : [password]),
    ];
    for (const text of [key, hash('sha256', key), secret, ...others]) expect(collector.received()).not.toContain(text);
    for (const text of [key, secret]) expect(service.log).not.toContain(text);
    const warnings = service.lines().filter(({ msg }) => String(msg).startsWith('traces: '));
    expect(warnings).toMatchObject([
      { level: 'warn', msg: expect.stringContaining('COMPRESSION is invalid') as string },
    ]);
  });

  // The plain service has a connection already.
  it.runIf(FAST === 'on')('has a failed trip when the service cannot connect', async () => {
    const collector = await startCollector();
    const { service, database } = await start(collector.url, CALLERS_ONLY);
    const url = new URL(database.url);
    const name = url.pathname.slice(1);
    url.pathname = '/postgres';
    await new Database(url.href).sql(`ALTER DATABASE ${name} ALLOW_CONNECTIONS false`);
    expect((await update(service, sampled(TRACE_ID))).status).toBe(503);
    await service.terminate();
    const request = collector.spans.find(({ kind }) => kind === 'SERVER');
    expect(request).toMatchObject({ hasFailed: true, attributes: { 'error.type': 'service_unavailable' } });
    const trips = collector.spans.filter((span) => span.name === 'updates');
    expect(trips[0]).toMatchObject({
      parentId: request?.spanId,
      hasFailed: true,
      attributes: { ...attributesOf(database), 'db.response.status_code': '55000', 'error.type': '55000' },
    });
  });

  it('has the SQLSTATE of a trip that failed', async () => {
    const collector = await startCollector();
    const { service, database } = await start(collector.url, CALLERS_ONLY);
    const lock = await database.session('LOCK TABLE inventory_item');
    expect((await list(service, sampled(TRACE_ID))).status).toBe(503);
    await lock.end();
    await service.terminate();
    expect(collector.spans.find((span) => span.name === 'list')).toMatchObject({
      hasFailed: true,
      attributes: { ...attributesOf(database), 'db.response.status_code': '55P03', 'error.type': '55P03' },
    });
  });

  it('has no span of probes and metrics, nor of statements that serve no request', async () => {
    const collector = await startCollector();
    const { service, database } = await start(collector.url);
    expect((await list(service, sampled(TRACE_ID))).status).toBe(200);
    await expect.poll(() => database.sql('SELECT FROM api_key WHERE last_used_at IS NOT NULL')).toHaveLength(1);
    const probe = async (path: string) =>
      (await ask(service.port, { target: path, headers: [...bearer, ...sampled(TRACE_ID)] })).status;
    expect([await probe('/health/live?'), await probe('/metrics'), await probe('/metrics?x')]).toEqual([200, 200, 200]);
    await database.sql('ALTER TABLE api_key RENAME TO elsewhere');
    expect(await probe('/health/ready')).toBe(503);
    await database.sql('ALTER TABLE elsewhere RENAME TO api_key');
    await expect.poll(() => service.lines().filter(({ msg }) => msg === 'ready')).toHaveLength(2); // without a probe
    expect(await probe('/health/ready')).toBe(200);
    await service.terminate();
    const names = ['COMMIT', 'GET /v1/inventory', 'LOCK', 'SELECT', 'key_check', 'list'];
    expect(collector.spans.map(({ name }) => name).toSorted()).toEqual(names);
    expect(new Set(collector.spans.map(({ traceId }) => traceId))).toEqual(new Set([TRACE_ID]));
    const [line] = service.lines().filter(({ route }) => route === '/metrics');
    expect(line?.['traceId']).toBe(TRACE_ID); // of the caller
  });

  describe('a collector that', () => {
    const OTEL_EXPORTER_OTLP_TIMEOUT = '400';
    /** A full batch is sent at once. */
    const fullBatch = async ({ port }: ServiceProcess) => {
      const connection = await Connection.open(port);
      for (let sent = 0; sent < 520; sent++) {
        connection.send('GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n');
        expect((await connection.answer()).status).toBe(404);
      }
      connection.destroy();
    };
    const lostLines = (service: ServiceProcess) => service.lines().filter(({ msg }) => msg === 'traces are lost');

    async function expectAllIsWell(service: ServiceProcess) {
      expect(await update(service)).toMatchObject({
        status: 200,
        text: '{"petId":1,"quantity":7,"status":"available"}',
      });
      expect(await list(service)).toMatchObject({ status: 200, text: listText([1, 7]) });
      expect(await service.health('ready')).toBe(200);
    }

    /** How long the drain took, in milliseconds. */
    async function drainMs(service: ServiceProcess): Promise<number> {
      expect(await service.terminate()).toBe(0);
      const [from = NaN, to = NaN] = ['draining', 'stopped'].map((msg) => {
        const line = service.lines().find((each) => each['msg'] === msg);
        return Date.parse(String(line?.['time']));
      });
      return to - from;
    }

    it.each([
      ['is away', 'ECONNREFUSED'],
      ['never answers', 'Request timed out'],
      ['answers 500', 'Internal Server Error'],
    ])('%s changes no response, and has one line in the log', async (fault, message) => {
      const answer = (_: unknown, response: ServerResponse) =>
        fault === 'answers 500' ? void response.writeHead(500).end() : undefined;
      const collector = await startCollector(answer);
      const endpoint = fault === 'is away' ? `http://127.0.0.1:${await freePort()}` : collector.url;
      const { service } = await start(endpoint, { OTEL_EXPORTER_OTLP_TIMEOUT });
      await expectAllIsWell(service);
      await fullBatch(service);
      expect(await service.line(({ msg }) => msg === 'traces are lost')).toMatchObject({
        level: 'warn',
        err: { message: expect.stringContaining(message) as string },
      });
      await fullBatch(service);
      await expectAllIsWell(service);
      if (fault !== 'is away') await expect.poll(() => collector.requests.length).toBeGreaterThan(1);
      expect(lostLines(service)).toHaveLength(1);
      if (fault === 'answers 500') {
        collector.answer = undefined;
        await fullBatch(service);
        await service.line(({ msg }) => msg === 'traces are sent');
        expect(collector.spans).not.toEqual([]);
      }
      expect(await service.terminate()).toBe(0);
    });

    it('answers with another text has one line in the log, which says so', async () => {
      const collector = await startCollector((_, response) => void response.end('<html>'));
      const { service } = await start(collector.url);
      await fullBatch(service);
      await fullBatch(service);
      expect(await service.terminate()).toBe(0);
      expect(service.lines().filter(({ msg }) => String(msg).startsWith('traces'))).toMatchObject([
        { level: 'warn', msg: expect.stringMatching(/^traces: Export succeeded but could not deserialize /) as string },
      ]);
    });

    it('speaks gRPC alone gets no span, and the log says which port to use', async () => {
      const grpc = createServer().listen(0, '127.0.0.1');
      await once(grpc, 'listening');
      await atTestEnd(() => void grpc.close());
      const { service } = await start(`http://127.0.0.1:${(grpc.address() as AddressInfo).port}`);
      await fullBatch(service);
      await service.line(({ msg }) => msg === 'traces are lost: this port speaks gRPC, not HTTP; use port 4318');
      expect(await service.terminate()).toBe(0);
    });

    it('wants headers that are written wrong gets no span, and the log has no part of them', async () => {
      const secret = randomBytes(24).toString('base64url');
      const collector = await startCollector();
      const { service } = await start(collector.url, { OTEL_EXPORTER_OTLP_HEADERS: `x-api-key: ${secret}==` });
      await fullBatch(service);
      expect(await service.line(({ msg }) => msg === 'traces are lost')).toMatchObject({
        err: { message: 'Header name must be a valid HTTP token [name]' },
      });
      expect(await service.terminate()).toBe(0);
      expect(service.log).not.toContain(secret);
      expect(collector.requests).toEqual([]);
    });

    it('never answers holds the end for a second at most', async () => {
      const [plain, held] = await Promise.all([start(''), start((await startCollector(() => undefined)).url)]);
      await Promise.all([expectAllIsWell(plain.service), expectAllIsWell(held.service)]);
      const [plainMs, heldMs] = await Promise.all([drainMs(plain.service), drainMs(held.service)]);
      expect(heldMs - plainMs).toBeGreaterThan(800);
      expect(heldMs - plainMs).toBeLessThan(1_600);
    });
  });

  /** Prints a line of the log for each package of OpenTelemetry that Node.js loads. */
  const HOOK = `import { registerHooks } from 'node:module';
    registerHooks({ resolve(name, context, next) {
      const found = next(name, context);
      const [loaded] = /@opentelemetry.[\\w-]+/.exec(found.url) ?? [];
      if (loaded) process.stdout.write(JSON.stringify({ msg: 'loaded', loaded }) + '\\n');
      return found;
    } });`;
  const OFF = ['@opentelemetry/api']; // for prom-client
  const ON = ['core', 'exporter-trace-otlp-proto', 'resources', 'sdk-trace'].map((name) => `@opentelemetry/${name}`);
  const COLLECTOR = 'http://127.0.0.1:9';
  const loadedByTraces = expect.arrayContaining([...OFF, ...ON]) as string[];
  it.each([
    [COLLECTOR, {}, loadedByTraces],
    ['', { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: COLLECTOR }, loadedByTraces],
    ['', { OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, OFF],
    [COLLECTOR, { OTEL_SDK_DISABLED: 'True' }, OFF],
    [COLLECTOR, { OTEL_TRACES_EXPORTER: 'none' }, OFF],
    [undefined, {}, OFF],
  ])('OpenTelemetry is loaded only for traces: %s %j', async (endpoint, settings, loaded) => {
    const hook = `--import=data:text/javascript,${encodeURIComponent(HOOK)}`;
    const without = { OTEL_BSP_SCHEDULE_DELAY: 'secret', OTEL_METRICS_EXPORTER: '', OTEL_LOGS_EXPORTER: 'secret' };
    const { service } = await start(endpoint, { ...settings, ...without }, [hook]);
    expect((await list(service)).status).toBe(200);
    expect((await update(service)).status).toBe(200);
    await service.terminate();
    const names = new Set(service.lines().flatMap((line) => (line['msg'] === 'loaded' ? [line['loaded']] : [])));
    expect([...names]).toEqual(loaded);
    const warnings = service.lines().filter(({ msg }) => String(msg).includes('OTEL_'));
    const msg = 'variables that have no effect here: OTEL_BSP_SCHEDULE_DELAY, OTEL_LOGS_EXPORTER';
    expect(warnings).toMatchObject([{ level: 'warn', msg }]);
    expect(service.log).not.toContain('secret');
  });

  it('are sent to the endpoint of traces alone as it is', async () => {
    const collector = await startCollector();
    const OTEL_EXPORTER_OTLP_TRACES_ENDPOINT = `${collector.url}/tenant/v1/traces`;
    const { service } = await start('http://127.0.0.1:9/v1/traces', { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT });
    expect((await list(service)).status).toBe(200);
    expect(await service.terminate()).toBe(0);
    expect(collector.requests.map(({ url }) => url)).toEqual(['/tenant/v1/traces']);
  });
});

it('another protocol than http/protobuf is refused at the start', async () => {
  const service = await ServiceProcess.onFreePort({
    DATABASE_URL: 'postgresql://user@db.example/inventory',
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4317',
    OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
  });
  service.start();
  expect((await service.ended).code).toBe(1);
  expect(service.log).toBe('inventory: OTEL_EXPORTER_OTLP_PROTOCOL must be one of http/protobuf, but is "grpc"\n');
});
