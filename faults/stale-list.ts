import { once } from 'node:events';
import { createServer, request, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Target } from './exchange.ts';

/** A service variant that is wrong on purpose: it keeps each list for a while, as a cache with a time-to-live does. */
export class StaleList implements Target {
  readonly name: string;
  readonly port: number;
  readonly killedAt = -Infinity;
  private readonly server: Server;

  private constructor(name: string, port: number, server: Server) {
    this.name = name;
    this.port = port;
    this.server = server;
  }

  /** @param keptMs how old a list may be that is given out */
  static async before(service: Target, keptMs: number): Promise<StaleList> {
    let kept: { at: number; headers: IncomingMessage['headers']; body: Buffer } | undefined;
    const server = createServer((incoming, answer) => {
      if (incoming.method === 'GET' && kept && performance.now() - kept.at < keptMs) {
        answer.writeHead(200, kept.headers).end(kept.body);
        return;
      }
      const { method, url, headers } = incoming;
      const forwarded = request({ host: '127.0.0.1', port: service.port, method, path: url, headers }, (given) => {
        const chunks: Buffer[] = [];
        given.on('data', (chunk: Buffer) => chunks.push(chunk));
        given.on('end', () => {
          const body = Buffer.concat(chunks);
          if (method === 'GET' && given.statusCode === 200)
            kept = { at: performance.now(), headers: given.headers, body };
          answer.writeHead(given.statusCode ?? 502, given.headers).end(body);
        });
      });
      incoming.pipe(forwarded);
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new StaleList(`stale ${service.name}`, (server.address() as AddressInfo).port, server);
  }

  async close(): Promise<void> {
    this.server.closeAllConnections();
    this.server.close();
    await once(this.server, 'close');
  }
}
