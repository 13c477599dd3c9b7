import { keys, startDatabase, usualPets } from './database.ts';
import { load } from './load.ts';
import { type RunningSide, startSide } from './sides.ts';
import { medianWithInterval } from './statistics.ts';

const PETS = [10, 1_000, 10_000];
const CONNECTIONS = 64;
const SECONDS = 3;
const headers = { Authorization: `Bearer ${keys.good}` };

async function requestsPerSecond(replicas: readonly RunningSide[], pets: number, seconds: number): Promise<number> {
  const connections = CONNECTIONS / replicas.length;
  const results = await Promise.all(
    replicas.map(({ url }) => load({ url, mode: 'list', headers, connections, seconds, pets: usualPets(pets) })),
  );
  const failures = results.reduce((sum, result) => sum + result.failures, 0);
  if (failures > 0) throw new Error(`${failures} requests failed`);
  return results.reduce((sum, result) => sum + result.requests / result.seconds, 0);
}

/** An update that one replica has acknowledged is in the next list of each, and they send the same bytes. */
async function checkAgreement(replicas: readonly RunningSide[]): Promise<void> {
  for (const [at, { url }] of replicas.entries()) {
    const quantity = 1_000_000 + Math.floor(Math.random() * 1_000_000);
    const update = { method: 'PATCH', headers: { ...headers, 'Content-Type': 'application/json' } };
    const answer = await fetch(`${url}/1`, { ...update, body: JSON.stringify({ quantity }) });
    const lists = await Promise.all(replicas.map(async (each) => (await fetch(each.url, { headers })).text()));
    const shown = lists.filter((list) => list.includes(`{"petId":1,"quantity":${quantity},`));
    if (answer.status !== 200 || shown.length !== replicas.length || new Set(lists).size !== 1) {
      throw new Error(`the replicas do not agree on an update by replica ${at + 1}`);
    }
  }
}

/**
 * What a second replica is worth on this machine: list throughput of two processes on one quiet database by that of one,
 * with as many connections in all. `npm run bench -- --replicas <rounds>`.
 */
export async function compareReplicas(rounds: number): Promise<void> {
  await using database = await startDatabase();
  for (const pets of PETS) {
    await database.fill(pets);
    const ratios: number[] = [];
    for (let round = 0; round < rounds; round++) {
      const counts = round % 2 === 0 ? [1, 2] : [2, 1];
      const rates = new Map<number, number>();
      for (const count of counts) {
        const environment = { DATABASE_URL: database.url };
        const replicas = await Promise.all(Array.from({ length: count }, () => startSide('service', environment)));
        try {
          await checkAgreement(replicas);
          await requestsPerSecond(replicas, pets, 1);
          rates.set(count, await requestsPerSecond(replicas, pets, SECONDS));
          await checkAgreement(replicas);
        } finally {
          await Promise.all(replicas.map((replica) => replica.stop()));
        }
      }
      ratios.push((rates.get(2) ?? NaN) / (rates.get(1) ?? NaN));
      console.log(
        `${pets} pets, round ${round + 1}: ${[1, 2].map((n) => rates.get(n)?.toFixed(0)).join(' and ')} lists/s`,
      );
    }
    const { median, low, high } = medianWithInterval(ratios);
    console.log(
      `${pets} pets: two replicas are ${median.toFixed(2)} times one (${low.toFixed(2)} to ${high.toFixed(2)})`,
    );
  }
}
