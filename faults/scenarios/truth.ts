import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LoadOptions } from '../load.ts';
import { atLeast, atMost, Stage, type Figure, type Scenarios, type World } from '../stage.ts';

/** With this many requests, some repeated lists are out of date even on a busy machine. */
const STALE_REQUESTS = 2_000;

/** Judges every response without a fault. */
export const TRUTH: Scenarios = {
  'no-fault': (world) => undisturbed(world, 100, {}, world.size.requests),

  /** Reading a long list takes time. A request must not join a reading that began before it. */
  'long-list': (world) => undisturbed(world, 5_000, { workers: 16, updateShare: 0.8 }, world.size.requests / 20),

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

async function undisturbed(
  world: World,
  pets: number,
  options: Partial<LoadOptions>,
  requests: number,
): Promise<Figure[]> {
  await using stage = await Stage.open(world, { pets });
  const load = stage.startLoad({ ...options, petIds: stage.petIds.slice(0, 100) });
  const { evidence } = stage;
  const startedAt = performance.now();
  while (evidence.requests < requests && evidence.violations === 0) await sleep(50);
  const perSecond = (1_000 * evidence.requests) / (performance.now() - startedAt);
  const figures = await stage.verdict();
  world.note(`${perSecond.toFixed(0)} requests a second, with their judgement`);
  return [...figures, atMost('connections refused', load.refusedConnections, 0)];
}
