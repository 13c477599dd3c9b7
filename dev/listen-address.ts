import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';

/**
 * The port of the PORT and HOST settings, a free one for 0, and the address at which this machine reaches it. A setting that
 * makes no sense is passed on: the service says best what is wrong with it.
 *
 * @throws when another program listens there
 */
export async function findAddress(): Promise<{ port: string; address: string }> {
  const { PORT = '3000', HOST = '' } = process.env;
  const probe = createServer();
  let port = PORT;
  try {
    probe.listen(Number(PORT), HOST || '0.0.0.0');
    await once(probe, 'listening');
    port = String((probe.address() as AddressInfo).port);
    probe.close();
    await once(probe, 'close');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') {
      throw new Error(`port ${PORT} is taken; set PORT to another`, { cause: error });
    }
  }
  const isEveryAddress = ['', '0.0.0.0', '::'].includes(HOST);
  const host = isEveryAddress ? 'localhost' : HOST.includes(':') ? `[${HOST}]` : HOST;
  return { port, address: `http://${host}:${port}` };
}
