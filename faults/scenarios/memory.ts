import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { Connection, type ConnectionLost } from '../../test/support/http-client.ts';
import { MemoryGroup } from '../memory-group.ts';
import { atLeast, found, Stage, type Figure, type Scenarios, type World } from '../stage.ts';

const PETS = 1_000_000;
/** Spread over the list, so that each update makes a part of it anew and stalled readers keep different lists. */
const UPDATED_PETS = 200;
const WRITERS = 100;
/** With what an update takes beside lists of this length, a hundred updates a second. */
const THINK_TIME_MS = 800;
const LEAST_UPDATES_PER_SECOND = 50;
const READERS = ['identity', 'identity', 'gzip', 'gzip'];
/** What the kernel holds for one is 4 MB where both ends are on one machine, and counts against the limit. */
const STALLED_READERS = 40;
/** The key check then has another session, so that the list is read whole while earlier ones are still kept. */
const CUT_EVERY_MS = 15_000;
const SESSION_CUTS = 4;
/** Fifty megabytes take their time on a busy machine; what is judged here is memory. */
const PATIENCE_MS = 60_000;

/** A million pets in a container. */
export const MEMORY: Scenarios = {
  /** 512 MiB, as deploy/kubernetes has it. */
  'small-container': (world) => contained(world, 512),

  /** A control: what is too little for the list alone must be seen to end the service. */
  'control-small-container': async (world) => found(await contained(world, 200), 'services that ended'),
};

async function contained(world: World, limitMb: number): Promise<Figure[]> {
  using group = new MemoryGroup(limitMb);
  await using stage = await Stage.open(world, {
    pets: UPDATED_PETS,
    among: PETS,
    services: 1,
    launcher: group.launcher,
    answerWithinMs: PATIENCE_MS,
  });
  const { service } = stage;
  const load = stage.startLoad({ workers: WRITERS, updateShare: 1, conditionalShare: 0, thinkTimeMs: THINK_TIME_MS });
  const reading = { ends: false, lists: 0 };
  stage.defer(() => (reading.ends = true));
  const readers = READERS.map((coding) => readAgainAndAgain(stage, coding, reading));
  const startedAt = performance.now();
  let stalledReaders = 0;
  for (; stalledReaders < STALLED_READERS && service.isRunning; stalledReaders++) {
    await stage.stalledReader().catch(() => undefined); // it may end at any moment
    await sleep(250);
  }
  for (let cuts = 0; cuts < SESSION_CUTS && service.isRunning; cuts++) {
    await stage.database.cutSessions();
    await sleep(CUT_EVERY_MS);
  }
  const perSecond = (1_000 * load.served) / (performance.now() - startedAt);
  reading.ends = true;
  await Promise.all(readers);
  const figures = await stage.verdict();
  world.note(`${limitMb} MB allowed, ${group.peakMb.toFixed(0)} MB used at most`);
  return [
    ...figures,
    atLeast('stalled readers', stalledReaders, STALLED_READERS),
    atLeast('lists read to their end', reading.lists, READERS.length),
    atLeast('updates a second', perSecond, LEAST_UPDATES_PER_SECOND),
  ];
}

/** Reads lists whole, one after the other. The pets that are updated become evidence. */
async function readAgainAndAgain(
  stage: Stage,
  coding: string,
  reading: { ends: boolean; lists: number },
): Promise<void> {
  const { service: target } = stage;
  const { headers } = stage.listRequest;
  const question = { ...stage.listRequest, headers: { ...headers, 'accept-encoding': coding } };
  while (target.isRunning && !reading.ends) {
    const start = performance.now();
    const connection = await Connection.open(target.port).catch(() => undefined);
    if (!connection) continue;
    const answer = await connection
      .request(question, { withinMs: PATIENCE_MS })
      .catch((error: unknown) => error as ConnectionLost);
    const exchange = {
      target,
      operation: { kind: 'list' } as const,
      start,
      end: performance.now(),
      connectedAt: start,
    };
    connection.destroy();
    if (answer instanceof Error || answer.status !== 200) {
      stage.evidence.add({ ...exchange, outcome: answer });
      continue;
    }
    reading.lists++;
    const bytes = answer.headers['content-encoding'] === 'gzip' ? await promisify(gunzip)(answer.bytes) : answer.bytes;
    stage.evidence.add({ ...exchange, outcome: { ...answer, text: itemsOf(bytes, stage.petIds) } });
  }
}

/** The items of some pets, in ascending order, as a list of these alone. */
function itemsOf(list: Buffer, petIds: readonly number[]): string {
  let from = 0;
  const items = petIds.map((petId) => {
    from = list.indexOf(`{"petId":${petId},`, from, 'latin1');
    return list.toString('latin1', from, list.indexOf('}', from) + 1);
  });
  return `[${items.join()}]`;
}
