import { setTimeout as sleep } from 'node:timers/promises';
import { atMost, Stage, type Figure, type World } from '../stage.ts';

/**
 * SIGTERM of the service that all 64 clients are talking to, most without a pause between their requests; they turn to
 * the other one as they are told to close. Every second round the signal comes twice.
 */
export async function sigterm(world: World): Promise<Figure[]> {
  const { random, size } = world;
  await using stage = await Stage.open(world);
  const hasty = stage.load({ workers: 48, together: true });
  const steady = stage.load({ workers: 16, thinkTimeMs: 150, together: true });
  const loads = [hasty, steady];
  const lastAnswerAt = new Map<string, number>();
  let serverErrors = 0;
  for (const load of loads) {
    load.onExchange(({ target, end, outcome }) => {
      lastAnswerAt.set(target.name, end);
      if ('status' in outcome && outcome.status >= 500) serverErrors++;
    });
    load.start();
  }
  const exits = { wrong: 0, slowestMs: 0 };
  for (let round = 0; round < size.drains; round++) {
    await sleep(random.between(200, 500));
    const service = stage.services[round % stage.services.length];
    if (!service) throw new RangeError('a service is needed');
    service.signal('SIGTERM');
    if (round % 2 === 1)
      setTimeout(
        () => {
          service.signal('SIGTERM');
        },
        random.between(1, 50),
      );
    const { code, signal, at } = await service.ended;
    if (code !== 0) {
      exits.wrong++;
      world.note(`${service.name} ended with ${String(code ?? signal)}: ${service.lastLogLines()}`);
    }
    exits.slowestMs = Math.max(exits.slowestMs, at - (lastAnswerAt.get(service.name) ?? 0));
    service.start();
    await service.becomesReady();
  }
  await Promise.all(loads.map((load) => load.stop()));
  const { figures } = await stage.verdict();
  return [
    ...figures,
    atMost('connections lost under a request', stage.evidence.lostConnections, 0),
    atMost('connections ended without notice', hasty.unannouncedCloses + steady.unannouncedCloses, 0),
    atMost('answers 5xx', serverErrors, 0),
    atMost('exits other than 0', exits.wrong, 0),
    atMost('slowest exit after the last answer', exits.slowestMs, 3_000, 'ms'),
  ];
}
