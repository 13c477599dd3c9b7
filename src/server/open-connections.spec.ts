import { Socket } from 'node:net';
import { expect, it } from 'vitest';
import type { ClientSocket } from '../http/request-context.js';
import { OpenConnections } from './open-connections.js';

const MOST = 4;

function open() {
  const connections = new OpenConnections(MOST);
  const admit = (): ClientSocket => {
    const socket = new Socket();
    connections.admit(socket);
    return socket;
  };
  const refuse = (socket: ClientSocket) => {
    connections.checking(socket);
    connections.checked(socket, false);
    connections.responded(socket);
  };
  const some = [admit(), admit(), admit(), admit()] as const;
  return { connections, admit, refuse, some, closed: () => some.map(({ destroyed }) => destroyed) };
}

it('a connection whose keys are refused again and again yields before others, although it got the last response', () => {
  const { connections, admit, refuse, some, closed } = open();
  refuse(some[1]);
  refuse(some[2]);
  connections.checking(some[1]);
  admit();
  expect(closed()).toEqual([false, true, false, false]);
  connections.checked(some[1], false); // its check ends after it has yielded
  admit();
  expect(closed()).toEqual([false, true, true, false]);
  admit();
  expect(closed()).toEqual([true, true, true, false]);
});

it('a refused connection that shows a good key then does not yield', () => {
  const { connections, admit, refuse, some, closed } = open();
  refuse(some[0]);
  connections.checking(some[0]);
  connections.checked(some[0], true);
  for (let n = 0; n < 2 * MOST; n++) admit();
  expect(closed()).toEqual([false, true, true, true]);
});

it('connections that have just come do not yield while most keys are being checked', () => {
  const { connections, admit, some, closed } = open();
  for (const socket of some.slice(0, 3)) connections.checking(socket);
  const next = admit();
  expect([...closed(), next.destroyed]).toEqual([true, false, false, false, false]);
});

it.each([
  ['keeps its place if it has shown a good key', true, [false, true, true, true]],
  ['is not taken for refused', undefined, [false, true, false, false]],
])('a connection whose check fails %s', (_, before, expected) => {
  const { connections, admit, some, closed } = open();
  for (const isGood of [before, undefined]) {
    connections.checking(some[0]);
    connections.checked(some[0], isGood);
  }
  for (let n = 0; n < (before ? 2 * MOST : 1); n++) admit();
  expect(closed()).toEqual(expected);
});
