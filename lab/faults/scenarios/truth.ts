import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { atLeast, atMost, Stage, type Scenarios } from '../stage.ts';

/** With this many requests, some repeated lists are out of date even on a busy machine. */
const STALE_REQUESTS = 2_000;

/** Judges every response without a fault. */
export const TRUTH: Scenarios = {
  'no-fault': async (world) => {
    await using stage = await Stage.open(world);
    const load = stage.startLoad();
    const { evidence } = stage;
    while (evidence.requests < world.size.requests && evidence.violations === 0) await sleep(50);
    const figures = await stage.verdict();
    return [...figures, atMost('connections refused', load.refusedConnections, 0)];
  },

  /** The control: the judge must find a cache that stands before a service and repeats its lists. */
  'control-stale-list': async (world) => {
    await using stage = await Stage.open(world, { services: 1 });
    const cache = staleCache(stage.service.url).listen(0, '127.0.0.1');
    await once(cache, 'listening');
    stage.defer(() => cache.close());
    const { port } = cache.address() as AddressInfo;
    stage.startLoad({ targets: [{ name: 'cache', port, killedAt: -Infinity }] });
    const { evidence } = stage;
    while (evidence.requests < STALE_REQUESTS) await sleep(50);
    await stage.verdict();
    return [atLeast('violations found', evidence.violations, 1)];
  },
};

/** Passes everything on to a service, but gives out each list thirty times. */
function staleCache(url: string): Server {
  let given = 0;
  let kept = Promise.resolve(new Response());
  async function pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', headers } = request;
    const body = await text(request);
    const ask = () =>
      fetch(`${url}${request.url ?? ''}`, {
        method,
        headers: { ...(headers as Record<string, string>), 'if-none-match': '', 'accept-encoding': 'identity' },
        ...(body && { body }),
      });
    if (method === 'GET' && given++ % 30 === 0) kept = ask();
    const answer = method === 'GET' ? (await kept).clone() : await ask();
    response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text());
  }
  return createServer((request, response) => void pass(request, response));
}
