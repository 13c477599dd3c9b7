import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { REFUSED } from '../../src/server/parser-errors.ts';
import { type Connection as ServerSocket, MOST_WAITING, closeGently } from '../../src/server/request-turns.ts';
import { Metrics } from '../../src/operations/metrics.ts';
import { refused, updated, whole } from '../support/answers.ts';
import type { Connection } from '../support/http-client.ts';
import { type TestService, startService } from '../support/service.ts';
import { REFUSED_HEADS, lastAnswer, listBytes, sendOn, updateBytes } from './raw-requests.ts';

const SCRIPT = 'GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: a\r\n\r\n';
const NOT_THERE = 'GET /x HTTP/1.1\r\nHost: a\r\n\r\n';
const WITH_BODY = 'GET /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx';
const CONNECT = 'CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n';

describe('the service, on a connection with pipelined requests,', () => {
  let service: TestService;
  /** How many requests Node.js has parsed in this test. */
  let parsed: number;
  /** How many it has refused before there was a request, for the log. */
  let refusals: number;

  beforeAll(async () => {
    service = await startService();
    service.server.prependListener('request', () => parsed++).on(REFUSED, () => refusals++);
  });
  beforeEach(async () => {
    await service.stock([1, 0], [2, 0]);
    parsed = refusals = 0;
  });
  const everyResponseEnds = () => expect.poll(() => service.app.get(Metrics).activeRequests).toBe(0);
  afterEach(() => everyResponseEnds());

  const send = (bytes = '') => sendOn(service.port, bytes);
  const list = () => listBytes(service.key);

  function update(petId: number, quantity: number, headers = ''): string {
    const body = JSON.stringify({ quantity });
    return updateBytes(service.key, `${headers}Content-Length: ${body.length}\r\n`, body, petId);
  }

  async function expectUpdated(connection: Connection, petId: number, quantity: number): Promise<void> {
    expect(whole(await connection.answer())).toEqual(updated(String(petId), quantity));
  }

  async function expectStock(...quantities: readonly [pet1: number, pet2: number]): Promise<void> {
    await everyResponseEnds();
    const rows = await service.sql('SELECT quantity FROM inventory_item ORDER BY pet_id');
    expect(rows.map(({ quantity }) => quantity)).toEqual(quantities);
  }

  /** Keeps updates of pet 1 waiting until the returned function is called. */
  const lockPet = () => service.database.lockRow(1);

  it('serves one at a time: a list behind an update has the new quantity', async () => {
    for (let quantity = 1; quantity <= 20; quantity++) {
      const connection = await send(update(1, quantity) + list());
      await expectUpdated(connection, 1, quantity);
      expect(JSON.parse((await connection.answer()).text)).toContainEqual({ petId: 1, quantity, status: 'available' });
    }
  });

  it('goes on behind a request whose head it refuses', async () => {
    const connection = await send(`GET /x HTTP/1.1\r\n\r\n${list()}`);
    expect(whole(await connection.answer())).toEqual(refused.noHost);
    expect((await connection.answer()).status).toBe(200);
  });

  it('closes the connection behind a transfer coding that it refuses', async () => {
    const [, head = ''] = REFUSED_HEADS.find(([name]) => name === 'a coding in HTTP/1.0') ?? [];
    const connection = await send(list() + head);
    expect((await connection.answer()).status).toBe(200);
    expect(await lastAnswer(connection)).toEqual(refused.transferCoding);
  });

  it('closes the connection when too many requests wait', async () => {
    expect(MOST_WAITING).toBe(8); // docs/interface.md
    const unlock = await lockPet();
    const connection = await send(update(1, 7));
    await expect.poll(() => parsed).toBe(1);
    connection.send(NOT_THERE.repeat(20_000));
    await expect.poll(() => parsed).toBe(1 + MOST_WAITING);
    await pause(100);
    expect(parsed).toBe(1 + MOST_WAITING);
    await unlock();
    await expectUpdated(connection, 1, 7);
    for (let n = 1; n <= MOST_WAITING; n++) {
      const { status, headers } = await connection.answer();
      expect([status, headers['connection']]).toEqual([404, n < MOST_WAITING ? 'keep-alive' : 'close']);
    }
    expect(await connection.closed()).toBe('');
  });

  it('serves any number of requests when few of them wait at a time', async () => {
    const connection = await send();
    for (let n = 0; n < 10 * MOST_WAITING; n++) {
      if (n % MOST_WAITING === 0) connection.send(NOT_THERE.repeat(MOST_WAITING));
      expect((await connection.answer()).headers['connection']).toBe('keep-alive');
    }
  });

  it.each([NOT_THERE, WITH_BODY])('begins each request in its own turn of the event loop: %j', async (bytes) => {
    let turn = 0;
    let next = setImmediate(function count() {
      turn++;
      next = setImmediate(count);
    });
    const turns = new Set<number>();
    const note = (_request: unknown, response: ServerResponse) => response.once('finish', () => turns.add(turn));
    service.server.on('request', note);
    onTestFinished(() => {
      clearImmediate(next);
      service.server.off('request', note);
    });
    const connection = await send(bytes.repeat(MOST_WAITING));
    for (let n = 0; n < MOST_WAITING; n++) expect((await connection.answer()).status).toBe(404);
    expect(turns.size).toBeGreaterThan(MOST_WAITING / 2);
  });

  it('parses few of the heads that arrive while it closes the connection, and serves none', async () => {
    const opened = once(service.server, 'connection') as Promise<[ServerSocket]>;
    const connection = await send();
    const [socket] = await opened;
    let heads = 0;
    socket.destroySoon = () => {
      closeGently.call(socket);
      const { parser } = socket;
      const onIncoming = parser?.onIncoming ?? expect.fail();
      Object.assign(parser ?? {}, { onIncoming: () => (heads++, onIncoming()) });
    };
    connection.send('GET /x HTTP/1.1\r\nHost: a\r\nContent-Length: 1025\r\n\r\n');
    expect((await connection.answer()).headers['connection']).toBe('close');
    connection.send(`${'x'.repeat(1_025)}${NOT_THERE.repeat(20_000)}`);
    expect(await connection.closed()).toBe('');
    await pause(300);
    expect(parsed).toBe(1);
    expect(heads).toBeLessThan(1_000);
  });

  it('reads no further while a request waits, even if bodies arrive in pieces', async () => {
    const unlock = await lockPet();
    const connection = await send(update(1, 7));
    const withoutEnd = update(2, 8).slice(0, -1);
    for (let n = 0; n < MOST_WAITING; n++) {
      connection.send(n === 0 ? withoutEnd : `}${withoutEnd}`);
      await pause(5);
    }
    expect(parsed).toBeLessThan(5);
    connection.send('}');
    await unlock();
    await expectUpdated(connection, 1, 7);
    for (let n = 0; n < MOST_WAITING; n++) await expectUpdated(connection, 2, 8);
  });

  it('reads no further when one of two waiting requests begins', async () => {
    const unlock = await lockPet();
    const connection = await send(NOT_THERE + update(1, 7) + NOT_THERE);
    expect((await connection.answer()).status).toBe(404);
    connection.send(NOT_THERE.repeat(MOST_WAITING));
    await pause(50);
    expect(parsed).toBe(3);
    await unlock();
    await expectUpdated(connection, 1, 7);
    for (let n = 0; n < 1 + MOST_WAITING; n++)
      expect((await connection.answer()).headers['connection']).toBe('keep-alive');
  });

  it('does not begin a waiting request when the client has disconnected', async () => {
    const unlock = await lockPet();
    const connection = await send(update(1, 7) + update(2, 8));
    await expect.poll(() => parsed).toBe(2);
    await pause(50);
    connection.reset();
    await pause(50);
    await unlock();
    await expectStock(7, 0);
  });

  it('answers nothing behind a request with Connection: close', async () => {
    for (const behind of [update(2, 8), 'garbage\r\n\r\n']) {
      const connection = await send(update(1, 7, 'Connection: close\r\n') + behind);
      expect(await lastAnswer(connection)).toEqual(updated('1', 7));
      await expectStock(7, 0);
    }
  });

  it('sends 100 Continue to a request that waited', async () => {
    const [head = '', body = ''] = update(2, 8, 'Expect: 100-continue\r\n').split(/(?<=\r\n\r\n)/);
    const connection = await send(update(1, 7) + head);
    await expectUpdated(connection, 1, 7);
    expect((await connection.answer()).status).toBe(100);
    await expectUpdated(connection.send(body), 2, 8);
    expect((await connection.send(list()).answer()).status).toBe(200);
  });

  it('answers every request of a client that has half-closed the connection', async () => {
    const connection = await send(update(1, 7) + list() + update(2, 8));
    connection.finish();
    await expectUpdated(connection, 1, 7);
    expect((await connection.answer()).status).toBe(200);
    await expectUpdated(connection, 2, 8);
    expect(await connection.closed()).toBe('');
  });

  it.each([
    ['garbage\r\n\r\n', 0],
    ['GET / HTTP/1.1\r\nbroken\r\n\r\n', 20],
    [`X: ${'x'.repeat(20_000)}`, 20],
  ])('answers garbage with one 400 after the responses before it: %.10s', async (garbage, finishesAfterMs) => {
    const unlock = await lockPet();
    const connection = await send(update(1, 6) + update(1, 7) + garbage);
    await pause(finishesAfterMs);
    connection.finish();
    await pause(20);
    await unlock();
    for (const quantity of [6, 7]) await expectUpdated(connection, 1, quantity);
    expect(await lastAnswer(connection)).toMatchObject({ status: 400 });
  });

  it('answers garbage with 400 after a response that has begun', async () => {
    const connection = await send(`${SCRIPT}garbage\r\n\r\n`);
    expect((await connection.answer()).status).toBe(200);
    expect(await lastAnswer(connection)).toMatchObject({ status: 400 });
  });

  it('answers repeated garbage with one 400', async () => {
    const unlock = await lockPet();
    const connection = await send(update(1, 7));
    for (let n = 0; n < 30; n++) {
      connection.send('\0garbage');
      await pause(2);
    }
    await unlock();
    await expectUpdated(connection, 1, 7);
    expect(await lastAnswer(connection)).toMatchObject({ status: 400 });
  });

  it('refuses no garbage that arrives while it closes the connection', async () => {
    const request = NOT_THERE.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n');
    const garbage = 'garbage\r\n\r\n';
    const opened = once(service.server, 'connection') as Promise<[Socket]>;
    const connection = await send(request);
    const [socket] = await opened;
    const closed = once(socket, 'close');
    expect(await lastAnswer(connection)).toEqual(refused.noRoute);
    connection.send(garbage).finish();
    await closed;
    expect([socket.bytesRead, refusals]).toEqual([request.length + garbage.length, 0]);
  });

  it('answers the requests before a CONNECT, and none behind it', async () => {
    const connection = await send(SCRIPT + SCRIPT + update(1, 7) + CONNECT + update(2, 8));
    for (let n = 0; n < 2; n++) expect((await connection.answer()).bytes.length).toBeGreaterThan(1e6);
    await expectUpdated(connection, 1, 7);
    expect(await lastAnswer(connection)).toEqual(refused.connect);
    await expectStock(7, 0);
  });

  it.each(['reset', 'finish'] as const)('frees everything when the client leaves behind a CONNECT: %s', async (end) => {
    for (let n = 0; n < 10; n++) {
      const connection = await send(SCRIPT.repeat(3) + CONNECT);
      connection.pause();
      await pause(n);
      connection[end]();
      if (end === 'finish') setTimeout(() => connection.destroy(), 20);
    }
    await everyResponseEnds();
  });

  // Node.js loses the head behind the upgrade, so it would read the body as a request.
  it('closes the connection behind a request for an upgrade, so that no body is served as a request', async () => {
    const upgrade = list().replace('\r\n\r\n', '\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n');
    const smuggled = update(2, 8);
    const [head = '', body = ''] = update(1, 7).split(/(?<=\r\n\r\n)/);
    const connection = await send(upgrade + head.replace(`: ${body.length}`, `: ${smuggled.length}`));
    await pause(20);
    connection.send(smuggled);
    expect(await lastAnswer(connection)).toMatchObject({ status: 200 });
    await expectStock(0, 0);
  });
});
