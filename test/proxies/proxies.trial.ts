import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { pipeline } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { startChild } from '../../dev/child.ts';
import { ERRORS, type ErrorCode } from '../../src/errors/error-code.ts';
import { LIMITS } from '../../src/http/limits.ts';
import * as raw from '../http/raw-requests.ts';
import { createDatabase, type Database } from '../support/database.ts';
import { type Answer, Connection, ask } from '../support/http-client.ts';
import { ServiceProcess } from '../support/service-process.ts';
import { listText } from '../support/stock.ts';
import { type Changes, type Proxy, type ProxyName, configuration, isInstalled, startProxy } from './proxy.ts';

const KEY = 'k'.repeat(40);
const LIST = listText([1, 5]);
/** A whole request, behind each row and as the body of some, where nobody may take it for one. */
const HIDDEN = 'GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n';

/** Requests of which a proxy and the service could think that they end at different places. */
const AMBIGUOUS = [
  'a space before the colon',
  'a bare CR in a value',
  'a folded header',
  'two lengths',
  'a list of lengths',
  'length and chunks',
  'chunks and length',
  'chunks not last',
  'two codings',
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
/** Between proxy and service: counts connections, and for the control changes what is sent. */
let wire: Server;
let connections = 0;
let change = (bytes: string): string => bytes;

beforeAll(async () => {
  database = await createDatabase();
  await database.stock([1, 5]);
  service = await ServiceProcess.running({ DATABASE_URL: database.url, BOOTSTRAP_API_KEY: KEY });
  wire = await listening((near) => {
    connections++;
    const far = connect({ port: service.port, host: '127.0.0.1', noDelay: true, allowHalfOpen: true });
    pipeline(near, changed, far, near, () => undefined);
  });
});
afterAll(async () => {
  wire.close();
  await service.kill();
  await database.drop();
});

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
  // HAProxy closes half of those that it has not needed, and again.
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
  afterAll(() => proxy.stop());

  /** Ids of the requests in the service's log; of what its parser has refused it knows none. */
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
    // What HAProxy's parser refuses it answers with a page that cannot be changed.
    if (name === 'haproxy' && answer.headers['content-type'] === 'text/html') return;
    expect(JSON.parse(answer.text)).toMatchObject({ status: answer.status });
    expect(ERRORS[codeOf(answer)].status).toBe(answer.status);
  }

  it.each(ROWS)('gives nobody the answer to another: %s', (_row, pieces) => send(pieces));

  it('has sent what the service has served, over shared connections', async () => {
    await expect.poll(servedButNotSent).toBe(0);
    expect([...new Set(proxy.passedOn()), '']).toEqual(expect.arrayContaining(logged()));
    expect(connections).toBeLessThan(asked / 2);
  });

  it('is seen to differ from a service that takes a body for a request', async () => {
    change = (bytes) => bytes.replace(/Content-Length: \d+/i, 'Content-Length: 0');
    await send([update(`Content-Length: ${HIDDEN.length}\r\n`, HIDDEN)]).catch(() => undefined);
    change = (bytes) => bytes;
    await expect.poll(servedButNotSent).toBeGreaterThan(0);
  });
});

const TWO: Changes[number] = ['server replica:3000', 'server replica:3000; server replica:3000'];
const RETRIES: [string, ProxyName, Changes, wrong: Changes[number]][] = [
  ['HAProxy', 'haproxy', [], ['retry-on conn-failure', 'retry-on all-retryable-errors']],
  ['nginx', 'nginx', [TWO], ['next_upstream error', 'next_upstream error non_idempotent']],
];
describe.each(RETRIES.filter(isThere))('%s, when an update is lost', (_, name, changes, wrong) => {
  /** How often an update is sent when its connection is cut, and the codes of that answer and of one when nobody listens. */
  async function outcome(of: Changes): Promise<[number, string, string]> {
    let sent = 0;
    const loser = await listening((socket) =>
      socket.on('data', (bytes) => {
        if (bytes.includes('GET /health')) return socket.end('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
        sent++;
        return socket.destroy();
      }),
    );
    const proxy = await startProxy(name, portOf(loser), of);
    const lost = await setQuantity(proxy.port);
    loser.close();
    const refused = await setQuantity(proxy.port);
    await proxy.stop();
    expect([lost.status, refused.status, refused.headers['retry-after']]).toEqual([503, 503, '1']);
    return [sent, codeOf(lost), codeOf(refused)];
  }

  it('does not send it again, and says what became of it', async () => {
    expect(await outcome(changes)).toEqual([1, 'outcome_unknown', 'service_unavailable']);
  });

  it('is seen to send it again where it is told to', async () => {
    expect((await outcome([...changes, wrong]))[0]).toBeGreaterThan(1);
  });
});

describe.runIf(isInstalled('nginx'))('nginx, when a replica is a machine that is gone', () => {
  /** Statuses of two updates, of which at least one is for the machine that does not even refuse connections. */
  async function statuses(changes: Changes): Promise<number[]> {
    const gone = await silentPort();
    const proxy = await startProxy('nginx', portOf(wire), [
      ['server replica:3000 fail_timeout=1s;', `server 127.0.0.1:${gone.port} fail_timeout=1s; server replica:3000;`],
      ...changes,
    ]);
    onTestFinished(async () => {
      await proxy.stop();
      gone.end();
    });
    return [(await setQuantity(proxy.port)).status, (await setQuantity(proxy.port)).status];
  }

  it('sends the update to another', async () => {
    expect(await statuses([])).toEqual([200, 200]);
  });

  it('logs the method of an update that it answers itself', async () => {
    const proxy = await startProxy('nginx', 1); // where nothing listens
    onTestFinished(() => proxy.stop());
    expect((await setQuantity(proxy.port)).status).toBe(503);
    await expect.poll(() => proxy.log()).toContain(' PATCH 503 ');
  });

  it('is seen to fail it where it may not', async () => {
    expect(await statuses([['proxy_next_upstream error timeout', 'proxy_next_upstream error']])).toContain(503);
  });
});

/** A port of 127.0.0.1 where the kernel drops what would connect, as its program is stopped and its queue is full. */
async function silentPort(): Promise<{ port: number; end: () => void }> {
  const listen = `require('net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, function () { console.log(this.address().port) })`;
  const { process: listener } = await startChild(['node', '-e', listen], 'TERM', { stdio: 'pipe' });
  const [line] = (await once(listener.stdout ?? listener, 'data')) as [Buffer];
  const port = Number(line);
  listener.kill('SIGSTOP');
  const fillers = Array.from({ length: 4 }, () => connect(port, '127.0.0.1').on('error', () => undefined));
  const end = () => {
    for (const filler of fillers) filler.destroy();
    listener.kill('SIGKILL');
  };
  return { port, end };
}
