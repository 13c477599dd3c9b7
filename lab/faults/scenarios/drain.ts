import { setTimeout as sleep } from 'node:timers/promises';
import { atMost, Stage, type Figure, type World } from '../stage.ts';

/**
 * Sends SIGTERM to the service of all 64 clients. The responses tell them to close, so they turn to the other service.
 * Every second round sends the signal twice.
 */
export async function sigterm(world: World): Promise<Figure[]> {
  const { random, size } = world;
  await using stage = await Stage.open(world);
  const hasty = stage.startLoad({ workers: 48, together: true });
  const steady = stage.startLoad({ workers: 16, thinkTimeMs: 150, together: true });
  const lastAnswerAt = new Map<string, number>();
  for (const load of [hasty, steady]) load.onExchange(({ target, end }) => lastAnswerAt.set(target.name, end));
  const exits = { wrong: 0, slowestMs: 0 };
  for (let round = 0; round < size.rounds; round++) {
    await sleep(random.between(200, 500));
    const service = stage.services[round % 2] ?? stage.service;
    service.signal('SIGTERM');
    if (round % 2 === 1) {
      await sleep(random.between(1, 50));
      service.signal('SIGTERM');
    }
    const { code, signal, at } = await service.ended;
    if (code !== 0) {
      exits.wrong++;
      world.note(`${service.name} ended with ${String(code ?? signal)}: ${service.lastLogLines()}`);
    }
    exits.slowestMs = Math.max(exits.slowestMs, at - (lastAnswerAt.get(service.name) ?? 0));
    service.start();
    await service.becomesReady();
  }
  const figures = await stage.verdict();
  const { evidence } = stage;
  const unavailable = evidence.answered('503 service_unavailable') + evidence.answered('503 outcome_unknown');
  return [
    ...figures,
    atMost('connections ended without notice', hasty.unannouncedCloses + steady.unannouncedCloses, 0),
    atMost('answers 503', unavailable, 0),
    atMost('exits other than 0', exits.wrong, 0),
    atMost('slowest exit after the last answer', exits.slowestMs, 3_000, 'ms'),
  ];
}
