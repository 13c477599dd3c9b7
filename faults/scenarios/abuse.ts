import { setTimeout as sleep } from 'node:timers/promises';
import { ask } from '../../test/support/http-client.ts';
import { openLoad } from '../open-load.ts';
import { questionOf, REFUSED } from '../pipeline.ts';
import { atLeast, atMost, madeWrong, Stage, type Scenarios } from '../stage.ts';

const FLOOD_PER_SECOND = 1_000;

const READERS = 100;
const STALLED_MS = 5_000;
/** The 32 MiB that outdated lists may take, and what V8 has not collected yet; the lists of all readers would take 500 MB. */
const MOST_GROWN_MB = 120;
const PATIENCE_MS = 60_000;
const PETS_IN_LONG_LIST = 100_000;
/** Far enough apart that most readers get a list of their own, since the others update the store all the while. */
const READER_EVERY_MS = 150;

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

  /** Clients that ask for a long list and then read nothing of it, while others update the same store. */
  'stalled-readers': async (world) => {
    const settings = madeWrong('http/limits.js', 'stalledMs: 30_000', `stalledMs: ${STALLED_MS}`); // not to wait so long
    await using stage = await Stage.open(world, { pets: PETS_IN_LONG_LIST, services: 1, settings });
    const { service } = stage;
    let peakMb = 0;
    const look = setInterval(() => (peakMb = Math.max(peakMb, service.residentMb())), 100);
    stage.defer(() => clearInterval(look));
    const load = stage.startLoad({ workers: 8, updateShare: 1, conditionalShare: 0, thinkTimeMs: 20 });

    // The same readers, but honest ones: what the service needs for so many lists when nobody stalls.
    const honest: Promise<unknown>[] = [];
    for (let reader = 0; reader < READERS; reader++) {
      honest.push(ask(service.port, stage.listRequest, { withinMs: PATIENCE_MS }).catch(() => undefined));
      await sleep(READER_EVERY_MS);
    }
    await Promise.all(honest);
    const normal = { peakMb, descriptors: service.openDescriptors(), unserved: load.unserved };
    peakMb = 0;
    for (let reader = 0; reader < READERS; reader++) {
      await stage.stalledReader();
      await sleep(READER_EVERY_MS);
    }
    const stalledAt = performance.now();
    const hopelessAt = stalledAt + 6 * STALLED_MS;
    while (service.openDescriptors() > normal.descriptors + 2 && performance.now() < hopelessAt) await sleep(100);
    const cutAfterMs = performance.now() - stalledAt;
    const grownMb = peakMb - normal.peakMb;
    const unserved = load.unserved - normal.unserved;
    const figures = await stage.verdict();
    return [
      ...figures,
      atMost('memory grown', grownMb, MOST_GROWN_MB, 'MB'),
      atMost(`all cut, with a limit of ${STALLED_MS} ms`, cutAfterMs, 2.5 * STALLED_MS, 'ms'),
      atMost('requests of others not served', unserved, 0),
    ];
  },
};
