import { once } from 'node:events';
import { type AddressInfo, Socket, connect } from 'node:net';
import { createServer } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, it, onTestFinished, vi } from 'vitest';
import type { Settings } from '../settings.js';
import { Drain } from './drain.js';

it('lets a client that was idle send one more request, and then closes its connection', async () => {
  const server = createServer({ keepAliveTimeout: 0 }, (_request, response) => response.end('served'));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  onTestFinished(() => void client.destroy());
  let received = '';
  client.on('data', (bytes) => (received += bytes.toString()));
  await once(server, 'connection');
  const drain = new Drain({ DRAIN_DELAY_MS: 0, DRAIN_TIMEOUT_MS: 6_000 } as Settings);
  const isEmpty = drain.empty(server, () => false);
  await pause(200); // idle connections are looked at each 100 ms, and closed after a second
  client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  expect(await isEmpty).toBe(true);
  expect(received).toContain('served');
});

it('stops listening after a second even if connections keep coming', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  let now = 0;
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => now);
  onTestFinished(() => clock.mockRestore());
  setImmediate(function comeOn() {
    if (!server.listening) return;
    now += 10;
    server.emit('connection', new Socket());
    setImmediate(comeOn);
  });
  const drain = new Drain({ DRAIN_DELAY_MS: 0, DRAIN_TIMEOUT_MS: 20_000 } as Settings);
  expect(await drain.empty(server, () => false)).toBe(true);
  expect(now).toBeGreaterThan(900);
  expect(now).toBeLessThan(1_500);
  expect(await drain.empty(server, () => false)).toBe(true); // nobody comes, and the clock stands still
});
