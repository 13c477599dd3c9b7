import { once } from 'node:events';
import { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { type Connection as ServedConnection, LIMITS } from '../../src/lib/http/index.ts';
import { KeyCheck } from '../../src/keys/key-check.ts';
import { refused, updated, whole } from '../support/answers.ts';
import { Connection, ask } from '../support/http-client.ts';
import { type TestService, startService } from '../support/service.ts';
import { CHUNKED, FIVE, LENGTH, lastAnswer, listBytes, updateBytes } from './raw-requests.ts';

/** Larger than any socket buffer. */
const LARGE = Buffer.alloc(13_000_000, 'x');
const STALLED_MS = 2_500;
const GET_LARGE = 'GET /large HTTP/1.1\r\nHost: a\r\n\r\n';
const HALF_A_HEAD = 'GET /v1/inventory HTTP/1.1\r\nHost: a\r\nX: ';

let service: TestService;
beforeAll(async () => {
  // Shorter ones would cut off requests that a busy machine delays.
  service = await startService({ limits: { headMs: 1_500, requestMs: 2_000, idleMs: 2_000 } });
  await service.stock([1, 0]);
});

const update = (headers = LENGTH, body = FIVE) => updateBytes(service.key, headers, body);
const updateWithBadKey = (headers = LENGTH) => update(headers, '').replace(/Bearer .*/, 'Bearer x');

async function open(bytes: string, { port } = service): Promise<Connection> {
  return (await Connection.open(port)).send(bytes);
}

describe.concurrent('a client that is too slow', () => {
  it.each([
    ['no byte', () => ''],
    ['half a head', () => HALF_A_HEAD],
    ['half a body', () => update(LENGTH, '{"qu')],
    ['half a chunked body', () => update(CHUNKED, '2\r\n{"\r\n')],
  ])('gets 408 and is disconnected after %s', async (_, begun) => {
    expect(await lastAnswer(await open(begun()))).toEqual(refused.late);
  });

  it('gets 408 and is disconnected when a body after 100 Continue is late', async () => {
    const connection = await open(update(`Expect: 100-continue\r\n${LENGTH}`, ''));
    expect((await connection.answer()).status).toBe(100);
    expect(await lastAnswer(connection)).toEqual(refused.late);
  });

  it.each([
    ['head', () => HALF_A_HEAD, 'x'],
    ['body', () => update(CHUNKED, ''), '1\r\n \r\n'],
  ])('gets 408 even if it keeps sending bytes of the %s', async (_, begun, more) => {
    const connection = await open(begun());
    const drip = setInterval(() => connection.send(more), 50);
    const answer = await connection.answer().finally(() => clearInterval(drip));
    expect(whole(answer)).toEqual(refused.late);
  });

  it('gets another refusal at once, and no second answer', async () => {
    const own = await startService({ limits: { headMs: 2_500, requestMs: 3_000 } }); // an idle connection stays open
    const connection = await open(updateWithBadKey(), own);
    expect(whole(await connection.answer())).toEqual(refused.badKey); // not that it is late
    expect(await connection.closed()).toBe('');
  });

  it.each(['/v1/inventory', '/metrics'])('gets its answer at once when the service needs no body: %s', async (path) => {
    const head = listBytes(service.key).replace('GET /v1/inventory', `HEAD ${path}`);
    const connection = await open(head.replace('\r\n\r\n', '\r\nContent-Length: 99999999\r\n\r\nx'));
    expect(await connection.answer({ toHead: true })).toMatchObject({ status: 200, headers: { connection: 'close' } });
    expect(await connection.closed()).toBe('');
  });
});

it('the service waits for a body longer than for the database', async () => {
  const own = await startService({ settings: { REQUEST_DEADLINE_MS: '2500' }, limits: { headMs: 1_500 } });
  await own.stock([1, 0]);
  const connection = await open(updateBytes(own.key, LENGTH, ''), own);
  await pause(3_000); // longer than requests wait for the database
  expect(whole(await connection.send(FIVE).answer())).toEqual(updated('1', 5));
});

describe.concurrent('a connection', () => {
  it('serves further requests, and is closed when it stays idle', async () => {
    const opened = once(service.server, 'connection') as Promise<[ServedConnection]>;
    const connection = await open(update(CHUNKED, `e\r\n${FIVE}\r\n0\r\n\r\n`));
    expect(whole(await connection.answer())).toEqual(updated('1', 5));
    const [socket] = await opened;
    await expect.poll(() => socket.lastRequest === undefined).toBe(true); // it would keep its memory
    expect(Object.hasOwn(socket, 'destroySoon')).toBe(true); // else the last response could be lost on its way
    const answer = await connection.send(update()).answer();
    expect(whole(answer)).toEqual(updated('1', 5));
    expect(answer.headers['keep-alive']).toBeDefined();
    expect(LIMITS.idleMs).toBeGreaterThan(60_000); // how long a balancer usually keeps its own connections
    expect(await connection.closed()).toBe('');
  });

  it('stays open after a refusal, even if the small body arrives later', async () => {
    const connection = await open(updateWithBadKey('Content-Length: 1024\r\n'));
    expect(whole(await connection.answer())).toEqual(refused.badKey);
    expect(whole(await connection.send(FIVE.padEnd(1024) + update()).answer())).toEqual(updated('1', 5));
  });
});

describe('connections', () => {
  it('beyond the maximum are closed on arrival while all others have shown a good key', async () => {
    expect(LIMITS).toMatchObject({ connections: 2_500, stalledMs: 30_000 }); // docs/scaling.md
    expect(LIMITS).toMatchObject({ headMs: 5_000, requestMs: 10_000 });
    const own = await startService({ limits: { connections: 2 } });
    const kept = [await open(listBytes(own.key), own), await open(listBytes(own.key), own)];
    for (const connection of kept) expect((await connection.answer()).status).toBe(200);
    expect(await (await open(listBytes(own.key), own)).closed()).toBe('');
    for (const connection of kept) expect((await connection.send(listBytes(own.key)).answer()).status).toBe(200);
  });

  const health = 'GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n';
  it.each<[string, string, { drips?: string; repeats?: boolean }?]>([
    ['send a head byte by byte', HALF_A_HEAD, { drips: 'x' }],
    ['ask again and again with a bad key', listBytes('x'.repeat(40)), { repeats: true }],
  ])('of clients without a key yield to others when they %s', async (_, bytes, { drips, repeats } = {}) => {
    const MOST = 10;
    const own = await startService({ limits: { connections: MOST } });
    await own.stock([1, 0]);
    const served = await open(listBytes(own.key), own); // shows a good key, and is idle then
    expect((await served.answer()).status).toBe(200);
    const lock = await own.database.lockRow(1);
    const checked = vi.spyOn(own.app.get(KeyCheck), 'check');
    onTestFinished(() => checked.mockRestore());
    const waiting = await open(updateBytes(own.key, LENGTH, FIVE), own); // is being served
    await expect.poll(() => checked.mock.settledResults[0]?.type).toBe('fulfilled');

    const crowd = new Set<Connection>();
    const join = async () => {
      const connection = await open(bytes, own);
      crowd.add(connection);
      const repeat = async () => {
        for (;;) {
          await connection.answer();
          await pause(10); // how fast it asks
          connection.send(bytes);
        }
      };
      if (repeats) repeat().catch(() => undefined); // it has yielded
    };
    const dripping = setInterval(() => drips && crowd.forEach((each) => each.send(drips)), 20);
    onTestFinished(() => {
      clearInterval(dripping);
      for (const each of crowd) each.destroy();
    });
    for (let n = 0; n < 2 * MOST; n++) await join();
    await lock();
    expect(whole(await waiting.answer())).toEqual(updated('1', 5));
    const outcomes: number[] = [];
    for (let n = 0; n < 2 * MOST; n++) {
      const probe = await ask(own.port, { target: '/health/live' });
      const list = await own.list();
      outcomes.push(probe.status, list.status);
      if (n % 4 === 0) await join(); // a closed one comes back
    }
    expect(outcomes).toEqual(Array<number>(4 * MOST).fill(200));
    for (const kept of [served, waiting]) expect((await kept.send(listBytes(own.key)).answer()).status).toBe(200);
    expect(await new Promise((done) => own.server.getConnections((_error, count) => done(count)))).toBeLessThanOrEqual(
      MOST,
    );
  });

  it('without a good key yield in the order in which they came or got their last response', async () => {
    const own = await startService({ limits: { connections: 3 } });
    const connections = [];
    for (const bytes of ['', health, '']) connections.push(await open(bytes, own));
    const [first, second, third] = connections as [Connection, Connection, Connection];
    expect((await second.answer()).status).toBe(200); // the service has accepted the first by now
    expect((await first.send(health).answer()).status).toBe(200);
    for (const yielding of [third, second]) {
      expect((await (await open(health, own)).answer()).status).toBe(200);
      expect(await yielding.closed()).toBe('');
    }
    expect((await first.send(health).answer()).status).toBe(200);
  });

  it('yield again when their last good key is longer ago than an idle connection may live, revoked or not', async () => {
    const idleMs = 4_000;
    const own = await startService({ limits: { connections: 2, idleMs } });
    const kept = [await open(listBytes(own.key), own), await open(listBytes(own.key), own)];
    for (const connection of kept) expect((await connection.answer()).status).toBe(200);
    const until = performance.now() + idleMs;
    await own.sql('UPDATE api_key SET revoked_at = now()');
    expect(await (await open('', own)).closed()).toBe('');
    while (performance.now() < until) {
      for (const connection of kept) expect((await connection.send(health).answer()).status).toBe(200);
      await pause(50); // how fast it asks
    }
    expect((await own.list()).status).toBe(401);
    expect(await kept[0]?.closed()).toBe('');
  });

  it('do not yield when a later check of their good key fails', async () => {
    const own = await startService({ limits: { connections: 2 }, settings: { REQUEST_DEADLINE_MS: '4000' } });
    const kept = [await Connection.open(own.port), await Connection.open(own.port)];
    const listed = () => Promise.all(kept.map(async (each) => (await each.send(listBytes(own.key)).answer()).status));
    expect(await listed()).toEqual([200, 200]);
    const lock = await own.database.session('LOCK TABLE api_key');
    expect(await listed()).toEqual([503, 503]);
    expect(await (await open('', own)).closed()).toBe('');
    await lock.query('COMMIT');
    expect(await listed()).toEqual([200, 200]);
  });

  it('share the bytes of a documentation file', async () => {
    const end = vi.spyOn(ServerResponse.prototype, 'end');
    onTestFinished(() => end.mockRestore());
    for (let times = 0; times < 2; times++) await ask(service.port, { target: '/docs/swagger-ui-bundle.js' });
    const files = end.mock.calls.map(([chunk]) => chunk as unknown).filter((chunk) => Buffer.isBuffer(chunk));
    expect(files.map((file) => file === files[0] && file.length > 1_000_000)).toEqual([true, true]);
  });
});

describe('a body that is too large', () => {
  it('is not read to its end', async () => {
    const opened = once(service.server, 'connection') as Promise<[Socket]>;
    const connection = await open(update(CHUNKED, '3b9aca00\r\n'));
    const [socket] = await opened;
    const flood = setInterval(() => connection.send(' '.repeat(65_536)), 5);
    onTestFinished(() => {
      clearInterval(flood);
      connection.destroy();
    });
    expect(await lastAnswer(connection)).toEqual(refused.tooLarge);
    expect(socket.bytesRead).toBeLessThan(20_000_000);
  });
});

describe('a client that reads a long response', () => {
  let large: TestService;
  beforeAll(async () => {
    large = await startService({
      limits: { stalledMs: STALLED_MS, headMs: 1_000, requestMs: 1_000 },
      prepare: (app) => void app.use('/large', (_: unknown, response: ServerResponse) => response.end(LARGE)),
    });
  });

  it('is disconnected when it stalls', async () => {
    const opened = once(large.server, 'connection') as Promise<[Socket]>;
    const connection = await open(GET_LARGE, large);
    connection.pause();
    const [socket] = await opened;
    await expect.poll(() => socket.destroyed).toBe(true);
    connection.resume();
    await expect(connection.answer()).rejects.toThrow('the connection ended');
  });

  it.each([
    ['what follows its head is malformed', CHUNKED, 'no chunk'],
    ['its body is overdue', LENGTH, ''],
  ])('gets the whole of it when it is slow but never stalls, and %s', async (_, header, body) => {
    const connection = await open(GET_LARGE.replace('\r\n\r\n', `\r\n${header}\r\n`), large);
    connection.readSlowly(16);
    const startedAt = performance.now();
    await pause(300); // some of it has been read; nothing tells how much
    connection.send(body);
    const answer = await connection.answer();
    expect(performance.now() - startedAt).toBeGreaterThan(STALLED_MS);
    expect(answer.bytes.equals(LARGE)).toBe(true);
    expect(await connection.closed()).toBe('');
  });
});
