import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { pipeline } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { startChild } from '../../dev/child.ts';
import { ERRORS, type ErrorCode } from '../../src/errors/error-code.ts';
import { LIMITS } from '../../src/server/limits.ts';
import * as raw from '../http/raw-requests.ts';
import { createDatabase, type Database } from '../support/database.ts';
import { type Answer, Connection, ask } from '../support/http-client.ts';
import { ServiceProcess } from '../support/service-process.ts';
import { listText } from '../support/stock.ts';
import { type Changes, type Proxy, type ProxyName, configuration, isInstalled, startProxy } from './proxy.ts';

const KEY = 'k'.repeat(40);
const LIST = listText([1, 5]);
/** A whole request that stands in a body or behind a refused request. Nobody may serve it. */
const HIDDEN = 'GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n';

/** Requests whose end a proxy and the service could see at different places. */
const AMBIGUOUS = [
  'a space before the colon',
  'a bare CR in a value',
  'a folded header',
  'two lengths',
  'length and chunks',
  'chunks not last',
  'a coding in HTTP/1.0',
];
type Row = [name: string, pieces: string[]];
const heads = new Map([...raw.MALFORMED_HEADS, ...raw.REFUSED_HEADS].map(([name, bytes]) => [name, bytes]));
const update = (headers: string, body: string) => raw.updateBytes(KEY, headers, body);
const unread = update(`Expect: 100-continue\r\nContent-Length: ${HIDDEN.length}\r\n`, '').replace('/1 ', '/x ');
const ROWS: Row[] = [
  ...AMBIGUOUS.map((name): Row => [name, [heads.get(name) ?? expect.fail(name)]]),
  ['a chunk longer than it says', [update(raw.CHUNKED, `5\r\n${raw.FIVE}\r\n0\r\n\r\n`)]],
  ['refused before its body, which comes at once', [unread + HIDDEN]],
  ['refused before its body, which comes later', [unread, HIDDEN]],
];

let database: Database;
let service: ServiceProcess;
/** Stands between proxy and service: counts connections, and changes what is sent. */
let wire: Server;
let connections = 0;
let change = (bytes: string): string => bytes;

beforeAll(async () => {
  database = await createDatabase();
  await database.stock([1, 5]);
  service = await ServiceProcess.running({
    DATABASE_URL: database.url,
    BOOTSTRAP_API_KEY: KEY,
    REQUEST_DEADLINE_MS: '9000',
  });
  wire = await listening((near) => {
    connections++;
    const far = connect({ port: service.port, host: '127.0.0.1', noDelay: true, allowHalfOpen: true });
    pipeline(near, changed, far, near, () => undefined);
  });
});
afterAll(() => void wire.close());

async function* changed(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  for await (const bytes of source) yield Buffer.from(change(bytes.toString('latin1')), 'latin1');
}

async function listening(accept: (socket: Socket) => void): Promise<Server> {
  const server = createServer({ noDelay: true, allowHalfOpen: true }, (socket) => {
    socket.on('error', () => undefined);
    accept(socket);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

const portOf = (server: Server) => (server.address() as AddressInfo).port;

function setQuantity(port: number): Promise<Answer> {
  const headers = { Authorization: `Bearer ${KEY}`, 'Content-Type': 'application/json' };
  return ask(port, { method: 'PATCH', target: '/v1/inventory/1', headers, body: raw.FIVE });
}

const codeOf = ({ text }: Answer) => (JSON.parse(text) as { code: ErrorCode }).code;

it('close idle connections before the service does', () => {
  const [, seconds] = /keepalive_timeout (\d+)s;\n {2}}/.exec(configuration('nginx')) ?? [];
  expect(Number(seconds) * 1_000).toBeLessThan(LIMITS.idleMs);
  // HAProxy closes half of its unused connections each time.
  expect(configuration('haproxy')).toContain('pool-purge-delay 5s');
});

const isThere = ([, name]: readonly [string, ProxyName, ...unknown[]]) => isInstalled(name);

const CONFIGURATIONS: [string, ProxyName, Changes][] = [
  ['HAProxy', 'haproxy', []],
  ['HAProxy, sharing more', 'haproxy', [['balance leastconn', 'http-reuse always']]],
  ['nginx', 'nginx', []],
  ['nginx, passing on bodies as they come', 'nginx', [['listen 8080', 'proxy_request_buffering off; listen 8080']]],
];
describe.each(CONFIGURATIONS.filter(isThere))('%s', (_, name, changes) => {
  let proxy: Proxy;
  let other: Connection;
  let asked = 0;
  let loggedBefore = 0;

  beforeAll(async () => {
    connections = 0;
    loggedBefore = logged().length;
    proxy = await startProxy(name, portOf(wire), changes);
    other = await Connection.open(proxy.port);
  });

  /** Ids of the requests in the service's log. A malformed request has none. */
  function logged(): string[] {
    const requests = service.lines().filter(({ msg }) => msg === 'request' || msg === 'malformed request');
    return requests.slice(loggedBefore).map((line) => (line['msg'] === 'request' ? String(line['requestId']) : ''));
  }

  const servedButNotSent = () => logged().length - proxy.passedOn().length;

  async function otherIsServed(): Promise<void> {
    const id = `other-${++asked}`;
    const headers = { Authorization: `Bearer ${KEY}`, 'X-Request-Id': id };
    const answer = await other.request({ target: '/v1/inventory', headers });
    expect([answer.status, answer.headers['x-request-id'], answer.text]).toEqual([200, id, LIST]);
    if (!other.reusable) other = await Connection.open(proxy.port);
  }

  async function send(pieces: readonly string[]): Promise<void> {
    const connection = await Connection.open(proxy.port);
    for (const piece of pieces) {
      connection.send(piece);
      await otherIsServed();
    }
    const answer = await connection.send(HIDDEN).answer().catch(String);
    connection.destroy();
    await otherIsServed();
    if (typeof answer === 'string') {
      expect(answer).toMatch(/not a status line|the connection ended/); // to HTTP/0.9 and HTTP/2; never silence
      return;
    }
    if (answer.status < 400) return;
    // HAProxy answers a malformed request with a page that its configuration cannot change.
    if (name === 'haproxy' && answer.headers['content-type'] === 'text/html') return;
    expect(JSON.parse(answer.text)).toMatchObject({ status: answer.status });
    expect(ERRORS[codeOf(answer)].status).toBe(answer.status);
  }

  it.each(ROWS)('gives no client the response to another: %s', (_row, pieces) => send(pieces));

  it('has sent each request that the service has served, over shared connections', async () => {
    await expect.poll(servedButNotSent).toBe(0);
    expect([...new Set(proxy.passedOn()), '']).toEqual(expect.arrayContaining(logged()));
    expect(connections).toBeLessThan(asked / 2);
  });

  it('is found out when the service takes a body for a request', async () => {
    change = (bytes) => bytes.replace(/Content-Length: \d+/i, 'Content-Length: 0');
    await send([update(`Content-Length: ${HIDDEN.length}\r\n`, HIDDEN)]).catch(() => undefined);
    change = (bytes) => bytes;
    await expect.poll(servedButNotSent).toBeGreaterThan(0);
  });
});

const TWO: Changes[number] = ['server replica:3000', 'server replica:3000; server replica:3000'];
const LOSERS: [string, ProxyName, Changes][] = [
  ['HAProxy', 'haproxy', []],
  ['nginx', 'nginx', [TWO]],
];
describe.each(LOSERS.filter(isThere))('%s', (_, name, changes) => {
  it('does not repeat an update whose connection is cut, and says what became of it', async () => {
    let sent = 0;
    const loser = await listening((socket) =>
      socket.on('data', (bytes) => {
        if (bytes.includes('GET /health')) return socket.end('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
        sent++;
        return socket.destroy();
      }),
    );
    onTestFinished(() => void loser.close());
    const { port } = await startProxy(name, portOf(loser), changes);
    const lost = await setQuantity(port);
    loser.close();
    const refused = await setQuantity(port);
    expect([lost.status, codeOf(lost), sent]).toEqual([503, 'outcome_unknown', 1]);
    expect([refused.status, codeOf(refused)]).toEqual([503, 'service_unavailable']);
    expect(refused.headers['retry-after']).toBe('1');
  });
});

describe.runIf(isInstalled('nginx'))('nginx, when the machine of a replica is gone', () => {
  it('sends the update to another one', async () => {
    const gone = await silentPort();
    const { port } = await startProxy('nginx', portOf(wire), [
      ['server replica:3000 fail_timeout=1s;', `server 127.0.0.1:${gone} fail_timeout=1s; server replica:3000;`],
    ]);
    expect([(await setQuantity(port)).status, (await setQuantity(port)).status]).toEqual([200, 200]);
  });

  it('logs the method of an update that it answers itself', async () => {
    const proxy = await startProxy('nginx', 1); // nothing listens on this port
    expect((await setQuantity(proxy.port)).status).toBe(503);
    await expect.poll(() => proxy.log()).toContain(' PATCH 503 ');
  });
});

/** A port of a stopped program with a full queue: the kernel drops new connections. The test that asks for it ends it. */
async function silentPort(): Promise<number> {
  const listen = `require('net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, function () { console.log(this.address().port) })`;
  const { process: listener } = await startChild(['node', '-e', listen], 'TERM', { stdio: 'pipe' });
  onTestFinished(() => void listener.kill('SIGKILL'));
  const [line] = (await once(listener.stdout ?? listener, 'data')) as [Buffer];
  listener.kill('SIGSTOP');
  for (let filler = 0; filler < 4; filler++) {
    const socket = connect(Number(line), '127.0.0.1').on('error', () => undefined);
    onTestFinished(() => void socket.destroy());
  }
  return Number(line);
}
