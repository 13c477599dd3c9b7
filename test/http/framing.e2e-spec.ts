import { setTimeout as pause } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type WholeAnswer, refused, updated, whole } from '../support/answers.ts';
import { type TestService, startService } from '../support/service.ts';
import {
  CHUNKED,
  FIVE,
  GARBAGE,
  LARGE_HEADS,
  MALFORMED_BODIES,
  MALFORMED_HEADS,
  REFUSED_BEFORE_BODY,
  REFUSED_HEADS,
  listBytes,
  sendOn,
  updateBytes,
} from './raw-requests.ts';

let service: TestService;
const uncaught: unknown[] = [];
const noteUncaught = (error: unknown) => uncaught.push(error);
beforeAll(async () => {
  service = await startService();
  await service.stock([1, 0], [2, 0], [3, 0]);
  process.on('uncaughtException', noteUncaught);
});
afterAll(async () => {
  process.off('uncaughtException', noteUncaught);
  await service.stop();
});

const list = () => listBytes(service.key);

function update(headers: string, body: string, petId?: number): string {
  return updateBytes(service.key, headers, body, petId);
}

const send = (bytes: string) => sendOn(service.port, bytes);

async function answersTo(bytes: string, count: number): Promise<WholeAnswer[]> {
  const connection = await send(bytes);
  const answers: WholeAnswer[] = [];
  while (answers.length < count) answers.push(whole(await connection.answer()));
  return answers;
}

/** The one answer, after which the server closes the connection. */
async function lastAnswerTo(bytes: string): Promise<WholeAnswer> {
  const connection = await send(bytes);
  const answer = await connection.answer();
  expect(answer.headers['connection']).toBe('close');
  expect(answer.headers['x-request-id']).toMatch(/^[\w-]{1,64}$/);
  expect(answer.headers['date']).toBeDefined();
  expect(await connection.closed()).toBe('');
  return whole(answer);
}

describe('a malformed head', () => {
  it.each(MALFORMED_HEADS)('is refused: %s', async (_, bytes) => {
    expect(await lastAnswerTo(bytes)).toEqual(refused.malformed);
  });

  it.each(REFUSED_HEADS)('is told: %s', async (_, bytes, expected) => {
    expect(await answersTo(bytes, 1)).toEqual([expected]);
  });

  it.each(LARGE_HEADS)('is told that it is too large: %s', async (_, bytes) => {
    expect(await lastAnswerTo(bytes)).toEqual(refused.headersTooLarge);
  });

  it('may have 64 headers, and up to 8 KiB of them', async () => {
    const sixty = list().replace('\r\n\r\n', `\r\n${'X: x\r\n'.repeat(62)}\r\n`);
    const large = list().replace('\r\n\r\n', `\r\nX: ${'x'.repeat(7_800)}\r\n\r\n`);
    expect((await answersTo(sixty + large, 2)).map(({ status }) => status)).toEqual([200, 200]);
  });

  it('may be HTTP/1.0, without Host', async () => {
    const [answer] = await answersTo(list().replace('HTTP/1.1\r\nHost: a', 'HTTP/1.0'), 1);
    expect(answer?.status).toBe(200);
  });

  it('may come a byte at a time', async () => {
    const connection = await send('');
    for (const byte of update('Content-Length: 14\r\n', FIVE)) {
      connection.send(byte);
      await pause(0);
    }
    expect(whole(await connection.answer())).toEqual(updated('1', 5));
  });
});

describe('a malformed body', () => {
  it.each(MALFORMED_BODIES)('is refused: %s', async (_, body) => {
    expect(await lastAnswerTo(update(CHUNKED, body, 2))).toEqual(refused.malformed);
    expect(await service.sql('SELECT quantity FROM inventory_item WHERE pet_id = 2')).toEqual([{ quantity: 0 }]);
  });

  it('is not looked at before the key, the path and the media type', async () => {
    const bad = update(CHUNKED, 'zz\r\n');
    expect(await lastAnswerTo(bad.replace(/Authorization.*\r\n/, ''))).toEqual(refused.noKey);
    expect(await lastAnswerTo(bad.replace(/Bearer .*/, 'Bearer x'))).toEqual(refused.badKey);
    expect(await lastAnswerTo(bad.replace('/1 ', '/x '))).toEqual(refused.petId);
    expect(await lastAnswerTo(bad.replace('application/json', 'text/plain'))).toEqual(refused.mediaType);
  });

  it('with 20 KiB of chunk extensions is refused', async () => {
    const bytes = update(CHUNKED, `e;${'x'.repeat(20_000)}\r\n${FIVE}\r\n0\r\n\r\n`);
    expect(await lastAnswerTo(bytes)).toMatchObject({ status: 413 });
  });

  it('cut short by the client changes nothing and hurts nobody', async () => {
    for (const end of ['destroy', 'reset', 'finish'] as const) {
      const connection = await send(update('Content-Length: 14\r\n', '{"quan', 2));
      await pause(20);
      connection[end]();
    }
    expect((await answersTo(list(), 1))[0]?.status).toBe(200);
    expect(await service.sql('SELECT quantity FROM inventory_item WHERE pet_id = 2')).toEqual([{ quantity: 0 }]);
  });
});

describe('pipelined requests', () => {
  it.each(GARBAGE)('keep their answers when garbage follows: %.10s', async (garbage) => {
    const three = [5, 6, 7].map((quantity) => update('Content-Length: 14\r\n', `{"quantity":${quantity}}`, 3));
    const connection = await send(three.join('') + garbage);
    for (const quantity of [5, 6, 7]) expect(whole(await connection.answer())).toEqual(updated('3', quantity));
    expect(whole(await connection.answer())).toEqual(refused.malformed);
    expect(await connection.closed()).toBe('');
  });

  it('keep their answers when garbage keeps coming', async () => {
    const connection = await send(list());
    for (let n = 0; n < 30; n++) connection.send('\0garbage');
    expect((await connection.answer()).status).toBe(200);
    expect(whole(await connection.answer())).toEqual(refused.malformed);
  });

  it('cannot be smuggled in a body', async () => {
    const inner = 'GET /v1/inventory HTTP/1.1\r\nHost: a\r\n\r\n';
    const connection = await send(update(`Content-Length: ${inner.length}\r\n`, inner));
    expect(whole(await connection.answer())).toEqual(refused.notJson);
    await expect(connection.answer({ withinMs: 100 })).rejects.toThrow('nothing more');
  });
});

describe('an expectation', () => {
  const expecting = (headers: string) => send(update(`${headers}Content-Length: 14\r\n`, ''));

  it('of 100-continue is met where the body is wanted', async () => {
    const connection = await expecting('Expect: 100-continue\r\n');
    expect((await connection.answer()).status).toBe(100);
    expect(whole(await connection.send(FIVE).answer())).toEqual(updated('1', 5));
  });

  it.each(REFUSED_BEFORE_BODY)('of 100-continue is refused without the body: %s', async (_, from, to, expected) => {
    const bytes = update('Expect: 100-continue\r\nContent-Length: 14\r\n', '');
    expect(await lastAnswerTo(bytes.replace(from, to))).toEqual(expected);
  });

  it('of anything else is no reason to refuse', async () => {
    const connection = await expecting('Expect: the-unexpected\r\n');
    expect(whole(await connection.send(FIVE).answer())).toEqual(updated('1', 5));
  });

  it('is none in HTTP/1.0', async () => {
    const bytes = update('Expect: 100-continue\r\nContent-Length: 14\r\n', FIVE);
    expect(await answersTo(bytes.replace('HTTP/1.1', 'HTTP/1.0'), 1)).toEqual([updated('1', 5)]);
  });
});

describe('an upgrade', () => {
  it.each(['websocket', 'h2c', 'TLS/1.0'])(
    'to %s is ignored, and is the last request of its connection',
    async (protocol) => {
      const connection = await send(
        update(`Connection: Upgrade\r\nUpgrade: ${protocol}\r\nContent-Length: 14\r\n`, FIVE),
      );
      expect(whole(await connection.answer())).toEqual(updated('1', 5));
      expect(await connection.closed()).toBe('');
    },
  );
});

describe('the process', () => {
  it('survives connections that are cut at any moment', async () => {
    const openings = [
      'CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n',
      'garbage\r\n\r\n',
      `GET /${'x'.repeat(100_000)}`,
      list(),
      update('Content-Length: 14\r\n', '{'),
      update('Content-Length: 100000\r\n', 'x'.repeat(5_000)),
      update('Expect: 100-continue\r\nContent-Length: 14\r\n', ''),
    ];
    for (const bytes of openings) {
      for (const afterMs of [0, 1, 5]) {
        const connection = await send(bytes);
        await pause(afterMs);
        connection.reset();
      }
    }
    await pause(100);
    expect(uncaught).toEqual([]);
  });

  it('lets go of every connection that it refused', async () => {
    const stubborn = await Promise.all(['CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n', 'garbage\r\n\r\n'].map(send));
    await Promise.all(stubborn.map((connection) => connection.answer()));
    service.server.closeIdleConnections();
    const open = promisify(service.server.getConnections.bind(service.server));
    await expect.poll(() => open(), { timeout: 3_000 }).toBe(0);
  });
});
