import { setTimeout as sleep } from 'node:timers/promises';
import { Connection, type Question } from '../../test/support/http-client.ts';
import { Durations, Peak } from '../measures.ts';
import { openLoad } from '../open-load.ts';
import { atLeast, atMost, madeWrong, Stage, type Figure, type World } from '../stage.ts';

const PER_SECOND = 1_000;

/** Requests that must be refused, with the status that says why. */
function invalidShots(apiKey: string): (Question & { readonly status: number })[] {
  const headers = { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' };
  const shot = { method: 'PATCH', target: '/v1/inventory/1', headers, body: '{"quantity":1}' };
  return [
    { ...shot, body: '{"quantity":-1}', status: 400 },
    { ...shot, body: '{"quantity":2147483648}', status: 400 },
    { ...shot, body: '{"quantity":"1"}', status: 400 },
    { ...shot, body: '{"quantity":1,"status":"sold"}', status: 400 },
    { ...shot, body: '{"quantity":', status: 400 },
    { ...shot, body: '{}', status: 400 },
    { ...shot, target: '/v1/inventory/abc', status: 400 },
    { ...shot, target: '/v1/inventory/9223372036854775808', status: 400 },
    { ...shot, target: '/v1/inventory/999999999', status: 404 },
    { ...shot, target: '/v1/pets/1', status: 404 },
    { ...shot, method: 'POST', status: 405 },
    { ...shot, headers: { ...headers, authorization: 'Bearer wrong' }, status: 401 },
    { ...shot, headers: { ...headers, authorization: `Bearer ${'x'.repeat(48)}` }, status: 401 },
    { ...shot, headers: { 'content-type': 'application/json' }, status: 401 },
    { ...shot, headers: { ...headers, 'content-type': 'text/plain' }, status: 415 },
    { ...shot, headers: { ...headers, 'if-match': '"available-0"' }, status: 412 },
  ];
}

/** A flood of invalid requests beside a normal load. */
export async function invalidRequests(world: World): Promise<Figure[]> {
  await using stage = await Stage.open(world);
  const opened = new Set<string>();
  const load = stage.load({ workers: 4, thinkTimeMs: 20 });
  load.start();
  await sleep(1_000);
  const before = new Set(await stage.database.sessions());
  const shots = invalidShots(stage.apiKey);
  let wrong = 0;
  const flooding = { ended: false };
  const flood = openLoad(
    stage.services.map(({ port }) => port),
    PER_SECOND,
    world.size.floodMs,
    () => world.random.pick(shots),
    (answer, _, shot) => {
      if (answer?.status === (shot as (typeof shots)[number]).status && /"status":\d+/.test(answer.text)) return;
      if (wrong++ < 5)
        world.note(`${JSON.stringify(shot)} was answered ${answer ? `${answer.status} ${answer.text}` : 'not at all'}`);
    },
  ).finally(() => {
    flooding.ended = true;
  });
  while (!flooding.ended) {
    await sleep(100);
    for (const session of await stage.database.sessions()) if (!before.has(session)) opened.add(session);
  }
  const { sent, notSent } = await flood;
  await load.stop();
  const { figures } = await stage.verdict();
  return [
    ...figures,
    atLeast('invalid requests', sent, (PER_SECOND * world.size.floodMs) / 1_000 - PER_SECOND / 50),
    atMost('not sent', notSent, 0),
    atMost('answers that are not the right 4xx', wrong, 0),
    atMost('database sessions opened', opened.size, 0),
  ];
}

const READERS = 100;
const STALLED_MS = 5_000;
/** The 32 MiB that outdated lists may take, and what V8 has not collected yet; the lists of all readers would take 500 MB. */
const MOST_GROWN_MB = 120;
const PATIENCE_MS = 60_000;
const PETS_IN_LONG_LIST = 100_000;
/** Far enough apart that most readers get a list of their own, since the others update the store all the while. */
const READER_EVERY_MS = 150;

/** Clients that ask for a long list and then read nothing of it, while others update the same store. */
export async function stalledReaders(world: World): Promise<Figure[]> {
  const settings = madeWrong('http/limits.js', 'stalledMs: 30_000', `stalledMs: ${STALLED_MS}`); // not to wait so long
  await using stage = await Stage.open(world, { pets: PETS_IN_LONG_LIST, services: 1, settings });
  const [service] = stage.services;
  if (!service) throw new RangeError('a service is needed');
  const memory = new Peak(() => service.residentMb());
  stage.defer(() => memory.stop());
  const load = stage.load({ workers: 8, updateShare: 1, conditionalShare: 0, thinkTimeMs: 20 });
  const others = new Durations(load);
  load.start();
  // The same readers, but honest ones: what the service needs for so many lists when nobody stalls.
  const honest: Promise<unknown>[] = [];
  for (let reader = 0; reader < READERS; reader++) {
    honest.push(
      askForList(stage, service.port).then(async ({ connection, answer }) => {
        await answer;
        connection.destroy();
      }),
    );
    await sleep(READER_EVERY_MS);
  }
  await Promise.all(honest);
  const normal = { memory: memory.take(), p99: others.quantile(0.99), descriptors: service.openDescriptors() };
  others.begin();
  for (let reader = 0; reader < READERS; reader++) {
    const { connection } = await askForList(stage, service.port);
    connection.pause();
    stage.defer(() => connection.destroy());
    await sleep(READER_EVERY_MS);
  }
  const stalledAt = performance.now();
  const hopelessAt = stalledAt + 6 * STALLED_MS;
  while (service.openDescriptors() > normal.descriptors + 2 && performance.now() < hopelessAt) await sleep(100);
  const cutAfterMs = performance.now() - stalledAt;
  const during = { memory: memory.take(), p99: others.quantile(0.99), unserved: others.unserved };
  await load.stop();
  const { figures } = await stage.verdict();
  world.note(`p99 of others ${during.p99.toFixed(1)} ms, with honest readers ${normal.p99.toFixed(1)} ms`);
  world.note(`memory at most ${during.memory.toFixed(0)} MB, with honest readers ${normal.memory.toFixed(0)} MB`);
  return [
    ...figures,
    atMost('memory grown', during.memory - normal.memory, MOST_GROWN_MB, 'MB'),
    atMost(`all cut, with a limit of ${STALLED_MS} ms`, cutAfterMs, 2.5 * STALLED_MS, 'ms'),
    atMost('requests of others not served', during.unserved, 0),
  ];
}

async function askForList(stage: Stage, port: number): Promise<{ connection: Connection; answer: Promise<unknown> }> {
  const connection = await Connection.open(port);
  const answer = connection.request(
    { target: '/v1/inventory', headers: { authorization: `Bearer ${stage.apiKey}` } },
    { withinMs: PATIENCE_MS },
  );
  return { connection, answer: answer.catch(() => undefined) };
}
