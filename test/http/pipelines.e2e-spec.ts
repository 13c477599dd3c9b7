import type { ServerResponse } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { MOST_WAITING } from '../../src/http/request-turns.ts';
import { Metrics } from '../../src/operations/metrics.ts';
import { refused, updated, whole } from '../support/answers.ts';
import { type TestService, startService } from '../support/service.ts';
import { GARBAGE, lastAnswer, listBytes, sendOn, updateBytes } from './raw-requests.ts';

const SCRIPT = 'GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: a\r\n\r\n';
const NOT_THERE = 'GET /x HTTP/1.1\r\nHost: a\r\n\r\n';
const CONNECT = 'CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n';

describe('pipelined requests of one connection', () => {
  let service: TestService;
  /** Requests that have been made of what came. */
  let made: number;

  beforeAll(async () => {
    service = await startService();
    service.server.prependListener('request', () => made++);
  });
  beforeEach(async () => {
    await service.stock([1, 0], [2, 0]);
    made = 0;
  });
  afterEach(() => nothingLeft());
  afterAll(() => service.stop());

  const list = () => listBytes(service.key);

  function update(petId: number, quantity: number, headers = ''): string {
    const body = JSON.stringify({ quantity });
    return updateBytes(service.key, `${headers}Content-Length: ${body.length}\r\n`, body, petId);
  }

  const send = (bytes: string) => sendOn(service.port, bytes);

  /** Keeps updates of pet 1 waiting until the returned function is called. */
  async function lockPet(): Promise<() => Promise<void>> {
    const unlock = await service.database.lockRow(1);
    onTestFinished(unlock);
    return unlock;
  }

  const areMade = (count: number) => vi.waitUntil(() => made === count, { timeout: 3_000 });

  /** Every response has ended. */
  async function nothingLeft(): Promise<void> {
    await expect.poll(() => service.app.get(Metrics).activeRequests, { timeout: 3_000 }).toBe(0);
  }

  const stock = () => service.sql('SELECT quantity FROM inventory_item ORDER BY pet_id');

  it('are served one at a time: a list behind an update has it', async () => {
    for (let quantity = 1; quantity <= 20; quantity++) {
      const connection = await send(update(1, quantity) + list());
      expect(whole(await connection.answer())).toEqual(updated('1', quantity));
      expect(JSON.parse((await connection.answer()).text)).toContainEqual({ petId: 1, quantity, status: 'available' });
    }
  });

  it('close the connection behind so many that wait', async () => {
    const unlock = await lockPet();
    const connection = await send(update(1, 7));
    await areMade(1);
    connection.send(NOT_THERE.repeat(20_000));
    await areMade(1 + MOST_WAITING);
    await pause(100);
    expect(made).toBe(1 + MOST_WAITING);
    await unlock();
    expect(whole(await connection.answer())).toEqual(updated('1', 7));
    for (let n = 1; n <= MOST_WAITING; n++) {
      const { status, headers } = await connection.answer();
      expect([status, headers['connection']]).toEqual([404, n < MOST_WAITING ? 'keep-alive' : 'close']);
    }
    expect(await connection.closed()).toBe('');
  });

  it('may be more than that in all', async () => {
    const connection = await send('');
    for (let n = 0; n < 10 * MOST_WAITING; n++) {
      if (n % MOST_WAITING === 0) connection.send(NOT_THERE.repeat(MOST_WAITING));
      expect((await connection.answer()).headers['connection']).toBe('keep-alive');
    }
  });

  it.each([
    ['nothing', NOT_THERE],
    ['a body', NOT_THERE.replace('\r\n\r\n', '\r\nContent-Length: 1\r\n\r\nx')],
  ])('begin each in a turn of its own, so that others need not wait for all: with %s', async (_, bytes) => {
    let turn = 0;
    let next = setImmediate(function count() {
      turn++;
      next = setImmediate(count);
    });
    const turns = new Set<number>();
    const note = (_request: unknown, response: ServerResponse) => response.once('finish', () => turns.add(turn));
    service.server.on('request', note);
    const connection = await send(bytes.repeat(MOST_WAITING));
    for (let n = 0; n < MOST_WAITING; n++) expect((await connection.answer()).status).toBe(404);
    clearImmediate(next);
    service.server.off('request', note);
    expect(turns.size).toBeGreaterThan(MOST_WAITING / 2);
  });

  it('are not made of what comes while the connection closes', async () => {
    const connection = await send('GET /x HTTP/1.1\r\nHost: a\r\nContent-Length: 2000\r\n\r\n');
    expect((await connection.answer()).headers['connection']).toBe('close');
    connection.send(`${'x'.repeat(2_000)}${NOT_THERE.repeat(20_000)}`);
    expect(await connection.closed()).toBe('');
    await pause(300);
    expect(made).toBe(1);
  });

  it('are not read on while one waits, however little of their bodies has come', async () => {
    const unlock = await lockPet();
    const connection = await send(update(1, 7));
    const rest = update(2, 8);
    for (let n = 0; n < MOST_WAITING; n++) {
      connection.send(n === 0 ? rest.slice(0, -1) : `}${rest.slice(0, -1)}`);
      await pause(5);
    }
    expect(made).toBeLessThan(5);
    connection.send('}');
    await unlock();
    expect(whole(await connection.answer())).toEqual(updated('1', 7));
    for (let n = 0; n < MOST_WAITING; n++) expect(whole(await connection.answer())).toEqual(updated('2', 8));
  });

  it('are not begun when the client has gone before their turn', async () => {
    const unlock = await lockPet();
    const connection = await send(update(1, 7) + update(2, 8));
    await areMade(2);
    await pause(50);
    connection.reset();
    await pause(50);
    await unlock();
    await nothingLeft();
    expect((await stock())[1]).toEqual({ quantity: 0 });
  });

  it('are neither begun nor told that they are malformed behind one that closes the connection', async () => {
    for (const behind of [update(2, 8), 'garbage\r\n\r\n']) {
      const connection = await send(update(1, 7, 'Connection: close\r\n') + behind);
      expect(await lastAnswer(connection)).toEqual(updated('1', 7));
      await nothingLeft();
      expect(await stock()).toEqual([{ quantity: 7 }, { quantity: 0 }]);
    }
  });

  it('may wait for a 100 Continue behind another', async () => {
    const [head = '', body = ''] = update(2, 8, 'Expect: 100-continue\r\n').split(/(?<=\r\n\r\n)/);
    const connection = await send(update(1, 7) + head);
    expect(whole(await connection.answer())).toEqual(updated('1', 7));
    expect((await connection.answer()).status).toBe(100);
    expect(whole(await connection.send(body).answer())).toEqual(updated('2', 8));
  });

  it('are all answered though the client has said that it sends no more', async () => {
    const connection = await send(update(1, 7) + list() + update(2, 8));
    connection.finish();
    expect(whole(await connection.answer())).toEqual(updated('1', 7));
    expect((await connection.answer()).status).toBe(200);
    expect(whole(await connection.answer())).toEqual(updated('2', 8));
    expect(await connection.closed()).toBe('');
  });

  it.each(GARBAGE)('are followed by one 400 for garbage, though the client sends no more: %.10s', async (garbage) => {
    for (const finishesAfterMs of [0, 20]) {
      const unlock = await lockPet();
      const connection = await send(update(1, 6) + update(1, 7) + garbage);
      await pause(finishesAfterMs);
      connection.finish();
      await pause(20);
      await unlock();
      expect(whole(await connection.answer())).toEqual(updated('1', 6));
      expect(whole(await connection.answer())).toEqual(updated('1', 7));
      expect(await lastAnswer(connection)).toEqual(refused.malformed);
    }
  });

  it('are followed by one 400 for garbage that keeps coming', async () => {
    const connection = await send(list());
    for (let n = 0; n < 30; n++) connection.send('\0garbage');
    expect((await connection.answer()).status).toBe(200);
    expect(await lastAnswer(connection)).toEqual(refused.malformed);
  });

  it('are answered before a CONNECT behind them, and let go of with it', async () => {
    const connection = await send(SCRIPT + SCRIPT + update(1, 7) + CONNECT + update(2, 8));
    for (let n = 0; n < 2; n++) expect((await connection.answer()).bytes.length).toBeGreaterThan(1e6);
    expect(whole(await connection.answer())).toEqual(updated('1', 7));
    expect(await lastAnswer(connection)).toEqual(refused.connect);
    await nothingLeft();
    expect(await stock()).toEqual([{ quantity: 7 }, { quantity: 0 }]);
  });

  it.each(['destroy', 'reset', 'finish'] as const)(
    'leave nothing behind a CONNECT when the client goes: %s',
    async (end) => {
      for (let n = 0; n < 10; n++) {
        const connection = await send(SCRIPT.repeat(3) + CONNECT);
        connection.pause();
        await pause(n);
        connection[end]();
        if (end === 'finish') setTimeout(() => connection.destroy(), 20);
      }
      await nothingLeft();
    },
  );

  it('end with one that asks for an upgrade: what Node.js loses behind it is not taken for a request', async () => {
    const upgrade = list().replace('\r\n\r\n', '\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n');
    const [head = '', body = ''] = update(1, 7).split(/(?<=\r\n\r\n)/);
    const smuggled = update(2, 8);
    const connection = await send(upgrade + head.replace(`: ${body.length}`, `: ${smuggled.length}`));
    await pause(20);
    connection.send(smuggled);
    expect(await lastAnswer(connection)).toMatchObject({ status: 200 });
    await nothingLeft();
    expect(await stock()).toEqual([{ quantity: 0 }, { quantity: 0 }]);
  });
});
