import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { refused, updated, whole } from '../support/answers.ts';
import { Connection } from '../support/http-client.ts';
import { type TestService, startService } from '../support/service.ts';
import { CHUNKED, FIVE, listBytes, updateBytes } from './raw-requests.ts';

/** Node.js looks for what is overdue once a second. */
const CHECK_MS = 1_000;
/** A list that no socket buffer holds: some 13 MB. */
const PETS = 200_000;
const STALLED_MS = 1_200;

let service: TestService;
beforeAll(async () => {
  service = await startService({ limits: { headMs: 500, requestMs: 700, idleMs: 500 } });
  await service.stock([1, 0]);
});
afterAll(() => service.stop());

const update = (headers: string, body: string) => updateBytes(service.key, headers, body);

async function open(bytes: string, { port } = service): Promise<Connection> {
  return (await Connection.open(port)).send(bytes);
}

async function elapsedMs(act: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await act();
  return performance.now() - startedAt;
}

describe.concurrent('a client that is too slow', () => {
  it.each([
    ['nothing', ''],
    ['half a request line', 'GET /v1/inv'],
    ['half a head', 'GET /v1/inventory HTTP/1.1\r\nHost: a\r\nX: '],
  ])('is told so and cut: %s', async (_, bytes) => {
    const connection = await open(bytes);
    const ms = await elapsedMs(async () => {
      expect(whole(await connection.answer())).toEqual(refused.late);
      expect(await connection.closed()).toBe('');
    });
    expect(ms).toBeLessThan(500 + 2 * CHECK_MS + 1_000);
  });

  it.each([
    ['a length', 'Content-Length: 14\r\n', '{"qu'],
    ['no byte of it', 'Content-Length: 14\r\n', ''],
    ['chunks', CHUNKED, '2\r\n{"\r\n'],
    ['100-continue', 'Expect: 100-continue\r\nContent-Length: 14\r\n', ''],
  ])('is told so and cut during a body: %s', async (_, headers, begun) => {
    const connection = await open(update(headers, begun));
    if (headers.includes('100-continue')) expect((await connection.answer()).status).toBe(100);
    const answer = await connection.answer();
    expect(whole(answer)).toEqual(refused.late);
    expect(answer.headers['connection']).toBe('close');
    expect(await connection.closed()).toBe('');
  });

  it.each([
    ['head', () => 'GET /v1/inventory HTTP/1.1\r\nHost: a\r\nX: ', 'x'],
    ['body', () => update(CHUNKED, ''), '1\r\n \r\n'],
  ])('is told so though it keeps sending a little of the %s', async (_, begun, more) => {
    const connection = await open(begun());
    const drip = setInterval(() => connection.send(more), 50);
    expect(whole(await connection.answer())).toEqual(refused.late);
    clearInterval(drip);
    connection.destroy();
  });

  it('is told what else is wrong at once, and gets no second answer', async () => {
    const connection = await open(update('Content-Length: 14\r\n', '').replace(/Bearer .*/, 'Bearer x'));
    const ms = await elapsedMs(async () => {
      expect(whole(await connection.answer())).toEqual(refused.badKey);
    });
    expect(ms).toBeLessThan(700);
    expect(await connection.closed()).toBe('');
  });

  it.each([
    ['HEAD', 200],
    ['OPTIONS', 204],
  ])('may send a body that nobody asked for, which is not waited for: %s', async (method, status) => {
    const head = listBytes(service.key)
      .replace('GET', method)
      .replace('\r\n\r\n', '\r\nContent-Length: 99999999\r\n\r\nx');
    const connection = await open(head);
    expect((await connection.answer({ toHead: true })).status).toBe(status);
    expect(await connection.closed()).toBe('');
  });
});

it('a body that comes later than the database may take is waited for', async () => {
  const own = await startService({ settings: { REQUEST_DEADLINE_MS: '1000' } });
  await own.stock([1, 0]);
  const connection = await open(updateBytes(own.key, 'Content-Length: 14\r\n', ''), own);
  await pause(1_500);
  expect(whole(await connection.send(FIVE).answer())).toEqual(updated('1', 5));
  connection.destroy();
  await own.stop();
});

describe.concurrent('a connection', () => {
  it('is kept for the next request, and closed when it stays idle', async () => {
    const connection = await open(update('Content-Length: 14\r\n', FIVE));
    expect(whole(await connection.answer())).toEqual(updated('1', 5));
    await pause(200);
    const answer = await connection.send(update('Content-Length: 14\r\n', FIVE)).answer();
    expect(whole(answer)).toEqual(updated('1', 5));
    expect(answer.headers['keep-alive']).toBeDefined();
    expect(await connection.closed()).toBe('');
  });

  it('is kept after a small body that was refused, whether it has come or not', async () => {
    const bad = update('Content-Length: 14\r\n', '').replace(/Bearer .*/, 'Bearer x');
    const connection = await open(bad);
    expect(whole(await connection.answer())).toEqual(refused.badKey);
    connection.send(FIVE + update('Content-Length: 14\r\n', FIVE));
    expect(whole(await connection.answer())).toEqual(updated('1', 5));
    connection.destroy();
  });

  it('is closed after the answer when the client wants that', async () => {
    const connection = await open(update('Connection: close\r\nContent-Length: 14\r\n', FIVE));
    expect((await connection.answer()).headers['connection']).toBe('close');
    expect(await connection.closed()).toBe('');
  });
});

describe('a body that is too large', () => {
  it.each(['Content-Length: 1000000000', 'Transfer-Encoding: chunked'])(
    'is not read to its end: %s',
    async (header) => {
      const connection = await open(update(`${header}\r\n`, header.startsWith('T') ? '3b9aca00\r\n' : ''));
      let sentBytes = 0;
      const flood = setInterval(() => {
        connection.send(' '.repeat(65_536));
        sentBytes += 65_536;
      }, 5);
      try {
        const answer = await connection.answer();
        expect(whole(answer)).toEqual(refused.tooLarge);
        expect(answer.headers['connection']).toBe('close');
        expect(await elapsedMs(() => connection.closed())).toBeLessThan(1_500);
        expect(sentBytes).toBeLessThan(50_000_000);
      } finally {
        clearInterval(flood);
        connection.destroy();
      }
    },
  );
});

describe('a reader', () => {
  let large: TestService;
  beforeAll(async () => {
    large = await startService({ limits: { stalledMs: STALLED_MS } });
    await large.sql('ALTER TABLE inventory_item DISABLE TRIGGER USER'); // without a history, for speed
    await large.sql(
      `INSERT INTO inventory_item SELECT n + 1000000000000000, 2147483647, 'available' FROM generate_series(1, ${PETS}) AS n`,
    );
    await large.sql('ALTER TABLE inventory_item ENABLE TRIGGER USER, ENABLE REPLICA TRIGGER inventory_item_replicated'); // or no list is kept
    await vi.waitFor(() => large.list(), { timeout: 20_000 }); // building it may take longer than a connection may stall
  });
  afterAll(() => large.stop());

  it('that stalls is cut', async () => {
    const connection = await open(listBytes(large.key), large);
    connection.pause();
    await pause(3 * STALLED_MS);
    connection.resume();
    await expect(connection.answer()).rejects.toThrow('the connection ended');
  });

  it('that is slow but moves gets everything', async () => {
    const list = await large.list();
    const connection = await open(listBytes(large.key), large);
    connection.readSlowly(12);
    const ms = await elapsedMs(async () => {
      const answer = await connection.answer({ withinMs: 14_000 });
      expect(answer.bytes.equals(list.bytes)).toBe(true);
    });
    expect(ms).toBeGreaterThan(2 * STALLED_MS);
    connection.destroy();
  });
});
