import { once } from 'node:events';
import { Agent, type IncomingMessage, type ServerResponse, request as ask } from 'node:http';
import type { Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import type { Request, Response } from 'express';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { Metrics } from '../../src/operations/metrics.ts';
import { refused, updated, whole } from '../support/answers.ts';
import { type TestService, startService } from '../support/service.ts';
import { lastAnswer, listBytes, sendOn, updateBytes } from './raw-requests.ts';

const LARGE = 'GET /large HTTP/1.1\r\nHost: a\r\n\r\n';
const LARGE_BYTES = 40_000_000; // more than socket buffers take
const NOT_THERE = 'GET /x HTTP/1.1\r\nHost: a\r\n\r\n';
const GARBAGE = 'GET / HTTP/1.1\r\nbroken\r\n\r\n';

describe('a connection serves one request at a time', () => {
  let service: TestService;
  let parsed: number;
  let latest: ServerResponse;
  /** Ends the response to `/slow`, whose head is sent at once. */
  let end: () => void;
  const slow = (_request: Request, response: Response) => {
    response.writeHead(200, { 'Content-Length': 2 }).write('a');
    end = () => response.end('b');
  };

  const large = (_request: Request, response: Response) => response.end(Buffer.alloc(LARGE_BYTES));

  beforeAll(async () => {
    service = await startService({ prepare: (app) => void app.use('/slow', slow).use('/large', large) });
    service.server.prependListener('request', (_request, response) => {
      parsed++;
      latest = response;
    });
  });
  beforeEach(async () => {
    await service.stock([1, 0], [2, 0]);
    parsed = 0;
  });
  const everyResponseEnds = () => expect.poll(() => service.app.get(Metrics).activeRequests).toBe(0);
  afterEach(everyResponseEnds);

  const send = (bytes: string) => sendOn(service.port, bytes);
  function update(petId: number, quantity: number, headers = ''): string {
    const body = JSON.stringify({ quantity });
    return updateBytes(service.key, `${headers}Content-Length: ${body.length}\r\n`, body, petId);
  }
  async function expectQuantityOf2(expected: number): Promise<void> {
    await everyResponseEnds();
    const quantity = service.sql('SELECT quantity FROM inventory_item WHERE pet_id = 2');
    expect(await quantity).toEqual([{ quantity: expected }]);
  }

  it.each([
    ['another request', () => update(2, 8)],
    ['one whose body is long', () => update(2, 8).replace(/\r\n\r\n.*/s, `0000000\r\n\r\n${'x'.repeat(2_000_000)}`)],
    ['CONNECT', () => 'CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n'],
  ])('does not serve what comes before the end of a response, which has Connection: close: %s', async (_, behind) => {
    const unlock = await service.database.lockRow(1);
    const opened = once(service.server, 'connection') as Promise<[Socket]>;
    const bytes = update(1, 7) + behind();
    const connection = await send(bytes);
    const [socket] = await opened;
    await expect.poll(() => socket.bytesRead).toBe(bytes.length); // unread bytes could destroy the response
    await unlock();
    expect(await lastAnswer(connection)).toEqual(updated('1', 7));
    expect(parsed).toBe(2); // each more would stay in memory
    await expectQuantityOf2(0);
  });

  it.each([false, true])('closes behind a response whose head is out; the client half-closes: %s', async (finishes) => {
    const connection = await send(NOT_THERE.replace('/x', '/slow'));
    await expect.poll(() => parsed).toBe(1);
    connection.send(update(2, 8));
    if (finishes) connection.finish();
    await expect.poll(() => parsed).toBe(2);
    end();
    expect((await connection.answer()).text).toBe('ab');
    expect(await connection.closed()).toBe('');
    await expectQuantityOf2(0);
  });

  it('serves two of 20,000 requests in one packet, and closes the connection', async () => {
    const connection = await send(NOT_THERE.repeat(20_000));
    expect((await connection.answer()).headers['connection']).toBe('keep-alive');
    expect(await lastAnswer(connection)).toEqual(refused.noRoute);
    expect(parsed).toBe(3);
  });

  it('serves what comes after the end, although the client has not read the response yet', async () => {
    const connection = await send(LARGE);
    connection.pause();
    await expect.poll(() => parsed).toBe(1);
    await expect.poll(() => latest.writableEnded).toBe(true);
    connection.send(update(2, 8));
    await expect.poll(() => parsed).toBe(2);
    connection.resume();
    expect((await connection.answer()).bytes.length).toBe(LARGE_BYTES);
    expect(whole(await connection.answer())).toEqual(updated('2', 8));
    expect((await connection.send(listBytes(service.key)).answer()).headers['connection']).toBe('keep-alive');
  });

  it('answers nothing behind Connection: close', async () => {
    const connection = await send(LARGE.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n') + update(2, 8));
    expect((await connection.answer()).headers['connection']).toBe('close');
    expect(await connection.closed()).toBe('');
    await expectQuantityOf2(0);
  });

  it.each([GARBAGE, '\0garbage', `X: ${'x'.repeat(20_000)}`])(
    'answers garbage once, behind the response before it: %.10j',
    async (garbage) => {
      const unlock = await service.database.lockRow(1);
      const connection = await send(update(1, 7));
      for (let n = 0; n < 9; n++) {
        connection.send(garbage);
        await pause(2); // a packet each
      }
      await unlock();
      expect(whole(await connection.answer())).toEqual(updated('1', 7));
      expect((await lastAnswer(connection)).status).toBe(400);
    },
  );
});

it('no request of clients that keep their connections is lost', async () => {
  const service = await startService();
  await service.stock(...Array.from({ length: 3_000 }, (_each, n) => [n, 1] as const));
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const headers = { Authorization: `Bearer ${service.key}`, 'Content-Type': 'application/json' };
  const kinds: [method: string, path: string, body?: string][] = [
    ['GET', '/v1/inventory'],
    ['HEAD', '/v1/inventory'],
    ['PATCH', '/v1/inventory/1', '{"quantity":5}'],
    ['PATCH', '/v1/inventory/x', '{"quantity":5}'],
    ['PUT', '/v1/inventory', '{}'],
    ...['/docs', '/docs/', '/docs/swagger-ui-bundle.js', '/openapi.json', '/metrics', '/x'].map(
      (path) => ['GET', path] as [string, string],
    ),
  ];
  const onNewConnections: string[] = [];
  for (let n = 0; n < 3; n++) {
    for (const [method, path, body] of kinds) {
      const request = ask({ agent, port: service.port, method, path, headers }).end(body);
      const [response] = (await once(request, 'response')) as [IncomingMessage];
      await once(response.resume(), 'end');
      if (!request.reusedSocket) onNewConnections.push(`${method} ${path}`);
    }
  }
  agent.destroy();
  expect(onNewConnections).toEqual(['GET /v1/inventory']); // the first request
});
