import { setTimeout as sleep } from 'node:timers/promises';
import { openLoad } from '../open-load.ts';
import { questionOf, REFUSED } from '../pipeline.ts';
import { atLeast, atMost, Stage, type Scenarios } from '../stage.ts';

const FLOOD_PER_SECOND = 1_000;

export const ABUSE: Scenarios = {
  /** A flood of invalid requests beside a normal load. */
  'invalid-requests': async (world) => {
    const { faultMs } = world.size;
    await using stage = await Stage.open(world);
    stage.startLoad({ workers: 4, thinkTimeMs: 20 });
    await sleep(1_000);
    const before = new Set(await stage.database.sessions());
    const opened = new Set<string>();
    const shots = REFUSED.map((request) => ({ ...questionOf(stage.apiKey, request), status: request.status }));
    let wrong = 0;
    const flood = openLoad(
      stage.services.map(({ port }) => port),
      FLOOD_PER_SECOND,
      faultMs,
      () => world.random.pick(shots),
      (answer, _, shot) => {
        if (answer?.status === shot.status && /"status":\d+/.test(answer.text)) return;
        if (wrong++ >= 5) return;
        world.note(`${JSON.stringify(shot)} was answered ${answer ? `${answer.status} ${answer.text}` : 'not at all'}`);
      },
    );
    for (const until = performance.now() + faultMs; performance.now() < until;) {
      await sleep(100);
      for (const session of await stage.database.sessions()) if (!before.has(session)) opened.add(session);
    }
    const { sent, notSent } = await flood;
    const figures = await stage.verdict();
    return [
      ...figures,
      atLeast('invalid requests', sent, (FLOOD_PER_SECOND * faultMs) / 1_000 - FLOOD_PER_SECOND / 50),
      atMost('not sent', notSent, 0),
      atMost('answers that are not the right 4xx', wrong, 0),
      atMost('database sessions opened', opened.size, 0),
    ];
  },
};
