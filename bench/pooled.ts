import { startPooler } from '../test/support/pooler.ts';
import { keys, startDatabase, usualPets } from './database.ts';
import { load } from './load.ts';
import { WARM_UP_SECONDS } from './measure.ts';
import { startSide, type Side } from './sides.ts';

/** Lists of a process behind PgBouncer in transaction mode, as a share of one with connections of its own. */
export interface Pooled {
  title: string;
  atLeast: number;
  /** Lists a second. */
  rounds: { pooled: number; direct: number }[];
}

type PooledRow = Pick<Pooled, 'title' | 'atLeast'> & { name: string; pets: number; updatesPerSecond: number };

const POOL_SIZE = 16;
const CONNECTIONS = 8;
const WRITERS = 8;

function row(name: string, pets: number, updatesPerSecond: number, atLeast: number): PooledRow {
  const writes = updatesPerSecond > 0 ? `, ${updatesPerSecond} updates/s beside` : '';
  const title = `list of ${pets.toLocaleString('en')} pets behind PgBouncer${writes}`;
  return { name, title, atLeast, pets, updatesPerSecond };
}

export const pooledRows: readonly PooledRow[] = [
  row('pooled-10000', 10_000, 0, 0.9),
  row('pooled-10000-updates', 10_000, 100, 0.85),
  row('pooled-100000-updates', 100_000, 100, 0.8),
];

/**
 * The same two processes take short turns, every second round backwards, so that a slow moment of the machine falls on both.
 * The updates go to a second replica behind the pooler, whichever process is measured.
 */
export async function measurePooled(row: PooledRow, rounds: number, seconds: number): Promise<Pooled> {
  const { title, atLeast, updatesPerSecond } = row;
  console.log(`${title}: ${rounds} rounds`);
  await using database = await startDatabase();
  await database.fill(row.pets);
  await using started = new AsyncDisposableStack();
  const pooler = await startPooler(database.url, POOL_SIZE);
  started.defer(() => pooler.stop());
  const pooled = started.use(await startSide('service', { DATABASE_URL: pooler.url }));
  const direct = started.use(await startSide('service', { DATABASE_URL: database.url }));
  const writer = started.use(await startSide('service', { DATABASE_URL: pooler.url }));

  const plan = { headers: { Authorization: `Bearer ${keys.good}` }, pets: usualPets(row.pets) };
  const updates = { ...plan, url: writer.url, mode: 'update', connections: WRITERS } as const;
  const listsPerSecond = async ({ url }: Side, seconds: number): Promise<number> => {
    const [lists, written] = await Promise.all([
      load({ ...plan, url, mode: 'list', connections: CONNECTIONS, seconds }),
      updatesPerSecond > 0 ? load({ ...updates, seconds, perSecond: updatesPerSecond }) : undefined,
    ]);
    const failures = lists.failures + (written?.failures ?? 0);
    if (failures > 0) throw new Error(`${failures} requests failed`);
    return lists.requests / lists.seconds;
  };

  // At their rate in a round, the code of the updates would be warm after minutes only.
  if (updatesPerSecond > 0) await load({ ...updates, seconds: WARM_UP_SECONDS.first });
  for (const side of [pooled, direct]) await listsPerSecond(side, WARM_UP_SECONDS.first);
  const found: Pooled = { title, atLeast, rounds: [] };
  for (let round = 0; round < rounds; round++) {
    const first = await listsPerSecond(round % 2 === 0 ? pooled : direct, seconds);
    const second = await listsPerSecond(round % 2 === 0 ? direct : pooled, seconds);
    found.rounds.push(round % 2 === 0 ? { pooled: first, direct: second } : { pooled: second, direct: first });
  }
  return found;
}
