import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';

/** @returns the wanted port, any free one for 0 @throws when another program listens on it */
export async function freePort(wanted = 0, host = '127.0.0.1'): Promise<number> {
  const probe = createServer().listen(wanted, host);
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  await probe[Symbol.asyncDispose]();
  return port;
}
