import { once } from 'node:events';
import { type AddressInfo, Socket, connect } from 'node:net';
import { createServer } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, it, onTestFinished, vi } from 'vitest';
import { Drain } from './drain.ts';

const SIX_SECONDS = { delayMs: 0, timeoutMs: 6_000 };

function setClock(): { now: number } {
  const clock = { now: 0 };
  const spy = vi.spyOn(performance, 'now').mockImplementation(() => clock.now);
  onTestFinished(() => spy.mockRestore());
  return clock;
}

async function serve() {
  const server = createServer({ keepAliveTimeout: 0 }, (_request, response) => response.end('served'));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  onTestFinished(() => void client.destroy());
  const [accepted] = (await once(server, 'connection')) as [Socket];
  return { server, client, accepted };
}

it('lets a client that is idle send one more request for a second, and then closes its connection', async () => {
  const { server, client } = await serve();
  let received = '';
  client.on('data', (bytes) => (received += bytes.toString()));
  const clock = setClock();
  const isEmpty = new Drain(() => false).empty(server, SIX_SECONDS);
  expect(server.listenerCount('connection')).toBe(1); // only after the delay does it watch for connections
  while (server.listening) await pause(1);
  clock.now = 999;
  await pause(250); // idle connections are looked at each 100 ms
  client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  await Promise.race([once(client, 'data'), once(client, 'close')]);
  expect(received).toContain('served');
  clock.now = 1_000;
  expect(await isEmpty).toBe(true);
});

it('lets a client that has sent half a head send the rest after that second', async () => {
  const { server, client, accepted } = await serve();
  client.write('GET / HTTP/1.1\r\n');
  const answered = Promise.race([once(client, 'data'), once(client, 'close')]);
  await expect.poll(() => accepted.bytesRead).toBeGreaterThan(0);
  const clock = setClock();
  const isAnswering = vi.fn(() => false);
  const isEmpty = new Drain(isAnswering).empty(server, SIX_SECONDS);
  while (server.listening) await pause(1);
  clock.now = 1_000;
  while (isAnswering.mock.calls.length < 2) await pause(1);
  client.write('Host: a\r\n\r\n');
  expect([String(await answered), await isEmpty]).toEqual([expect.stringContaining('served'), true]);
});

it('stops listening when as many connections have come as can have waited, even if more keep coming', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const clock = setClock();
  setImmediate(function comeOn() {
    if (!server.listening) return;
    if (server.listenerCount('connection') > 1) clock.now++; // only while it lets connections in
    server.emit('connection', new Socket());
    setImmediate(comeOn);
  });
  const drain = new Drain(() => false);
  const settings = { delayMs: 0, timeoutMs: 500 };
  expect(await drain.empty(server, settings)).toBe(true); // the time-out begins after that
  expect(clock.now).toBe(512); // the bound of Node.js and one, as Linux has it
  expect(await drain.empty(server, settings)).toBe(true); // nobody comes, and the clock stands still
});
