import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { Connection, ConnectionLost } from '../../test/support/http-client.ts';
import { MemoryGroup } from '../memory-group.ts';
import { quantile, succeeded } from '../measures.ts';
import { atLeast, atMost, found, leftOut, Stage, type Figure, type World } from '../stage.ts';

const PETS = 1_000_000;
/** Spread over the list, so that each update makes a part of it anew and stalled readers keep different lists. */
const UPDATED_PETS = 200;
const UPDATES_PER_SECOND = 100;
/** What an update takes beside lists of this length. */
const EXPECTED_MS = 200;
const WRITERS = 100;
const READERS = ['identity', 'identity', 'gzip', 'gzip'];
/** What the kernel holds for one is 4 MB where both ends are on one machine, and counts against the limit. */
const STALLED_READERS = 40;
/** The key check then has another session, so that the list is read whole while earlier ones are still kept. */
const CUT_EVERY_MS = 15_000;
const PATIENCE_MS = 60_000;

/** A million pets in a container of 512 MiB, as deploy/kubernetes has it. */
export function smallContainer(world: World): Promise<Figure[]> {
  return contained(world, 512);
}

/** A control: what is too little for the list alone must be seen to end the service. */
export async function smallContainerControl(world: World): Promise<Figure[]> {
  return found(await contained(world, 200), 'services that ended');
}

async function contained(world: World, limitMb: number): Promise<Figure[]> {
  const obstacle = MemoryGroup.obstacle();
  if (obstacle !== undefined) return leftOut(world, `this account may not limit memory (${obstacle})`);
  using group = new MemoryGroup(limitMb);
  const options = { pets: UPDATED_PETS, among: PETS, services: 1, launcher: group.launcher };
  // Fifty megabytes take their time on a busy machine; what is judged here is memory.
  const patient = { ...world, size: { ...world.size, answerWithinMs: PATIENCE_MS } };
  await using stage = await Stage.open(patient, options);
  const [service] = stage.services;
  if (!service) throw new RangeError('a service is needed');
  let stalledReaders = 0;
  const reading = { ends: false, lists: 0, slowestMs: 0 };
  stage.defer(() => (reading.ends = true));
  const thinkTimeMs = (1_000 * WRITERS) / UPDATES_PER_SECOND - EXPECTED_MS;
  const load = stage.load({ workers: WRITERS, updateShare: 1, conditionalShare: 0, thinkTimeMs });
  const updates: number[] = [];
  load.onExchange((exchange) => succeeded(exchange) && updates.push(exchange.end - exchange.start));
  load.start();
  const readers = READERS.map((coding) => readAgainAndAgain(stage, coding, reading));
  const startedAt = performance.now();
  let cutAt = startedAt;
  while (performance.now() - startedAt < world.size.containedMs && service.isRunning) {
    if (stalledReaders < STALLED_READERS) {
      const connection = await Connection.open(service.port).catch(() => undefined);
      if (!connection) break;
      connection.pause();
      connection.send(`GET /v1/inventory HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${stage.apiKey}\r\n\r\n`);
      stage.defer(() => connection.destroy());
      stalledReaders++;
    }
    if (performance.now() - cutAt > CUT_EVERY_MS) {
      await stage.database.cutSessions();
      cutAt = performance.now();
    }
    await sleep(250);
  }
  const seconds = (performance.now() - startedAt) / 1_000;
  reading.ends = true;
  const residentMb = service.isRunning ? service.residentMb() : 0;
  await Promise.all([load.stop(), ...readers]);
  world.note(
    `${(updates.length / seconds).toFixed(0)} updates/s, p99 ${quantile(updates, 0.99).toFixed(0)} ms; ` +
      `${reading.lists} lists, the slowest ${reading.slowestMs.toFixed(0)} ms; ` +
      `${limitMb} MB allowed, ${group.peakMb.toFixed(0)} MB used at most, ${residentMb.toFixed(0)} MB resident at the end`,
  );
  const { figures } = await stage.verdict();
  return [
    ...figures.filter(({ what }) => what !== 'slowest answer'),
    atMost('services that ended', service.isRunning ? 0 : 1, 0),
    atLeast('stalled readers', stalledReaders, STALLED_READERS),
    atLeast('lists read to their end', reading.lists, READERS.length),
    atLeast('updates a second', updates.length / seconds, UPDATES_PER_SECOND / 2),
  ];
}

/** Reads lists whole, one after the other. The pets that are updated become evidence. */
async function readAgainAndAgain(
  stage: Stage,
  coding: string,
  reading: { ends: boolean; lists: number; slowestMs: number },
): Promise<void> {
  const [target] = stage.services;
  const headers = { authorization: `Bearer ${stage.apiKey}`, 'accept-encoding': coding };
  while (target?.isRunning && !reading.ends) {
    const connection = await Connection.open(target.port).catch(() => undefined);
    const [start, connectedAt] = [performance.now(), performance.now()];
    const answer = await connection
      ?.request({ target: '/v1/inventory', headers }, { withinMs: PATIENCE_MS })
      .catch((error: unknown) => error as ConnectionLost);
    const end = performance.now();
    connection?.destroy();
    if (!answer) continue;
    const exchange = { target, operation: { kind: 'list' } as const, start, end, connectedAt };
    if (answer instanceof Error || answer.status !== 200) {
      stage.evidence.add({ ...exchange, outcome: answer });
      continue;
    }
    reading.lists++;
    reading.slowestMs = Math.max(reading.slowestMs, end - start);
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
