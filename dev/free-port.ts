import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Systems give higher ports to connections by themselves: such a port could be taken before a program listens on it.
 */
const FIRST_PORT = 10_000;
const PORTS = 22_000;

/** Processes begin in different places: the workers of the tests, whose numbers are neighbours, far apart. */
let next = process.pid * 360;

/** @returns the wanted port, any free one for 0 @throws when another program listens on it */
export async function freePort(wanted = 0, host = '127.0.0.1'): Promise<number> {
  const port = wanted || FIRST_PORT + (next++ % PORTS);
  const probe = createServer().listen(port, host);
  try {
    await once(probe, 'listening');
  } catch (error) {
    if (wanted !== 0 || (error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    return freePort(0, host);
  }
  await probe[Symbol.asyncDispose]();
  return port;
}
