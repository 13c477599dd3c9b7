import { ask, setQuantity } from './client.ts';
import { keys, startDatabase, usualPets, type Store } from './database.ts';
import { load } from './load.ts';
import { WARM_UP_SECONDS } from './measure.ts';
import { startSide } from './sides.ts';
import { medianWithInterval } from './statistics.ts';

const CONNECTIONS = 64;
const SECONDS = 3;

/**
 * What a second replica is worth on this machine: list throughput of two processes on one quiet database by that of one,
 * with as many connections in all. `npm run bench -- --replicas <rounds>`.
 */
export async function compareReplicas(rounds: number): Promise<void> {
  await using database = await startDatabase();
  for (const pets of [10, 1_000, 10_000]) {
    const ratios: number[] = [];
    for (let round = 0; round < rounds; round++) {
      const rates = new Map<number, number>();
      for (const replicas of round % 2 === 0 ? [1, 2] : [2, 1]) {
        rates.set(replicas, await listsPerSecond(database.own, pets, replicas));
      }
      ratios.push((rates.get(2) ?? NaN) / (rates.get(1) ?? NaN));
    }
    const { median, low, high } = medianWithInterval(ratios);
    console.log(
      `${pets} pets: two replicas are ${median.toFixed(2)} times one (${low.toFixed(2)} to ${high.toFixed(2)})`,
    );
  }
}

async function listsPerSecond(store: Store, pets: number, replicas: number): Promise<number> {
  await store.fill(pets);
  store.expectWrites();
  await using started = new AsyncDisposableStack();
  const urls: string[] = [];
  for (let n = 0; n < replicas; n++) {
    const side = started.use(await startSide('service', { DATABASE_URL: store.url }));
    urls.push(side.url);
  }
  const headers = { Authorization: `Bearer ${keys.good}` };
  const plan = { mode: 'list', headers, connections: CONNECTIONS / replicas, pets: usualPets(pets) } as const;
  await checkAgreement(urls);
  await Promise.all(urls.map((url) => load({ ...plan, url, seconds: WARM_UP_SECONDS.first })));
  const results = await Promise.all(urls.map((url) => load({ ...plan, url, seconds: SECONDS })));
  await checkAgreement(urls);
  const failed = results.find(({ failures }) => failures > 0);
  if (failed) throw new Error(`${failed.failures} requests failed`);
  return results.reduce((sum, { requests, seconds }) => sum + requests / seconds, 0);
}

/** An update that one replica has acknowledged is in the next list of each, and they send the same bytes. */
async function checkAgreement(urls: readonly string[]): Promise<void> {
  for (const url of urls) {
    const quantity = 1_000_000 + Math.floor(Math.random() * 1_000_000);
    const status = await setQuantity(url, 1, quantity);
    const lists = await Promise.all(urls.map(async (each) => (await ask(each)).text()));
    const isShown = lists.every((list) => list === lists[0] && list.includes(`{"petId":1,"quantity":${quantity},`));
    if (status !== 200 || !isShown) throw new Error(`the replicas do not agree on an update by ${url}`);
  }
}
