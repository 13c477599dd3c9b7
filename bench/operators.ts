import { once } from 'node:events';
import { Agent } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { quantile } from '../faults/measures.ts';
import { atSteadyRate } from '../faults/open-load.ts';
import { send, setQuantity } from './client.ts';
import { startDatabase, usualPets } from './database.ts';
import { running, type RunningSide, type SideName } from './sides.ts';
import { median } from './statistics.ts';
import { memoryMb } from './usage.ts';

export interface OperatorFigures {
  side: SideName;
  coldStartMs: number;
  idleMb: number;
  afterListMb: number;
  listP99Ms: number;
  updateP99Ms: number;
}

export interface WholeReading {
  medianMs: number;
  /** The longest that the service's event loop was held: of each reading, the first is that of a process just started. */
  heldMs: number[];
}

const compared: readonly SideName[] = ['service', 'fastify', 'nest'];
const STARTS = 5;
const IDLE_MS = 10_000;
const PER_SECOND = 50;
const WARM_UP_SECONDS = 3;
const PACED_SECONDS = 20;
const READINGS = 5;

/** What operators ask first, of the service and two peers. */
export async function measureOperators(): Promise<OperatorFigures[]> {
  await using database = await startDatabase();
  const environment = { DATABASE_URL: database.url };
  const starts = new Map<SideName, number[]>(compared.map((name) => [name, []]));
  await database.fill(10);
  for (let round = 0; round < STARTS; round++) {
    for (const name of round % 2 === 0 ? compared : compared.toReversed())
      starts.get(name)?.push(await running(name, environment, coldStartMs));
  }
  const figures: OperatorFigures[] = [];
  for (const side of compared) {
    await database.fill(10_000);
    const memory = await running(side, environment, memoryAtRest);
    await database.fill(1_000);
    const listP99Ms = await running(side, environment, ({ url }) =>
      pacedP99Ms(async (agent) => (await send(url, agent, 'GET')).status === 200),
    );
    const updateP99Ms = await running(side, environment, (started) =>
      pacedP99Ms((agent, n) => setQuantity(started, agent, 1 + (n % usualPets(1_000)), n)),
    );
    figures.push({ side, coldStartMs: median(starts.get(side) ?? []), ...memory, listP99Ms, updateP99Ms });
  }
  return figures;
}

/** A pet that comes makes each list anew, so each is read whole. */
export async function measureWholeReading(): Promise<WholeReading> {
  const pets = 1_000_000;
  await using database = await startDatabase();
  await database.fill(pets);
  const read = async ({ program, ...side }: RunningSide): Promise<WholeReading> => {
    const longestHeldMs = async (): Promise<number> => {
      const reply = once(program, 'message', { signal: AbortSignal.timeout(5_000) });
      program.send('report');
      return ((await reply) as [number])[0];
    };
    const agent = new Agent({ keepAlive: true });
    await setQuantity(side, agent, 1, 1);
    const timesMs: number[] = [];
    const heldMs: number[] = [];
    for (let n = 1; n <= READINGS; n++) {
      await database.query(`INSERT INTO inventory_item (pet_id, quantity, status) VALUES ($1, 7, 'sold')`, [pets + n]);
      await longestHeldMs();
      const start = performance.now();
      const { status } = await send(side.url, agent, 'GET');
      timesMs.push(performance.now() - start);
      if (status !== 200) throw new Error(`the list is answered ${status}`);
      await sleep(50); // the loop has to turn once more before what held it is counted
      heldMs.push(await longestHeldMs());
    }
    agent.destroy();
    return { medianMs: median(timesMs), heldMs };
  };
  return await running('service', { DATABASE_URL: database.url }, read, './bench/event-loop.ts');
}

/** From the start of the process to the first 200: of `/health/ready`, and of a list of ten where there is no such thing. */
async function coldStartMs({ name, label, url, spawnedAt }: RunningSide): Promise<number> {
  const ready = name === 'service' ? new URL('/health/ready', url).href : url;
  const agent = new Agent();
  for (const deadline = performance.now() + 20_000; performance.now() < deadline;) {
    const { status } = await send(ready, agent, 'GET');
    if (status === 200) return performance.now() - spawnedAt;
    await sleep(5);
  }
  throw new Error(`${label} does not become ready`);
}

async function memoryAtRest({ pid, url, spawnedAt }: RunningSide) {
  await sleep(spawnedAt + IDLE_MS - performance.now());
  const idleMb = memoryMb(pid, 'VmRSS');
  const agent = new Agent();
  const { status } = await send(url, agent, 'GET');
  if (status !== 200) throw new Error(`the list is answered ${status}`);
  return { idleMb, afterListMb: memoryMb(pid, 'VmRSS') };
}

/** Each request is sent when its time has come, on a connection of its own where all others wait. */
async function pacedP99Ms(sendOne: (agent: Agent, n: number) => Promise<boolean>): Promise<number> {
  const agent = new Agent({ keepAlive: true });
  const timesMs: number[] = [];
  let failures = 0;
  const requests = atSteadyRate(PER_SECOND, (n) => {
    const start = performance.now();
    void sendOne(agent, n)
      .catch(() => false)
      .then((done) => {
        if (!done) failures++;
        else if (n > WARM_UP_SECONDS * PER_SECOND) timesMs.push(performance.now() - start);
      });
  });
  await sleep((WARM_UP_SECONDS + PACED_SECONDS) * 1000);
  requests.stop();
  await sleep(500);
  agent.destroy();
  if (failures > 0) throw new Error(`${failures} of the paced requests failed`);
  return quantile(timesMs, 0.99);
}
