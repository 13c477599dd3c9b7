import { once } from 'node:events';
import { Socket } from 'node:net';
import { expect, it, onTestFinished, vi } from 'vitest';
import { closeGently } from './connection.ts';

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
