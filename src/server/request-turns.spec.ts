import { once } from 'node:events';
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, it, onTestFinished, vi } from 'vitest';
import { type Connection, closeGently, inTurn } from './request-turns.js';

it('a connection that is closed is read for half a second more, so that its client gets the response', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const socket = new Socket().pause();
  closeGently.call(socket);
  vi.advanceTimersByTime(450);
  expect([socket.isPaused(), socket.destroyed]).toEqual([false, false]);
  vi.advanceTimersByTime(100);
  expect(socket.destroyed).toBe(true);
  const another = new Socket();
  closeGently.call(another);
  await once(another.destroy(), 'close');
  expect(vi.getTimerCount()).toBe(0); // one would keep the connection in memory
});

it.each([
  ['is served', false, 1],
  ['is not served when its connection is gone', true, 0],
])('a request whose turn comes %s', async (_, isGone, times) => {
  const socket: Connection = new Socket();
  socket.begunAt = socket.bytesRead; // of this read one request has begun already
  const request = new IncomingMessage(socket);
  const response = new ServerResponse(request);
  response.assignSocket(socket);
  const serve = vi.fn();
  inTurn(serve)(request, response);
  if (isGone) socket.destroy();
  await nextTurn();
  expect(serve).toHaveBeenCalledTimes(times);
});
