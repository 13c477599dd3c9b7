import { startPooler } from '../test/support/pooler.ts';
import { startDatabase } from './database.ts';
import { measure, type Measurement } from './measure.ts';
import { lists, type Scenario } from './scenarios.ts';
import { startSide, type Side } from './sides.ts';

/** Lists of a process behind PgBouncer in transaction mode, as a share of one with connections of its own. */
export interface Pooled {
  title: string;
  atLeast: number;
  rounds: { pooled: Measurement; direct: Measurement }[];
}

type PooledRow = Pick<Pooled, 'title' | 'atLeast'> & { name: string; scenario: Scenario };

const POOL_SIZE = 16;

function row(name: string, pets: number, updatesPerSecond: number, atLeast: number): PooledRow {
  const scenario = lists(pets, 8, { updatesPerSecond });
  const writes = updatesPerSecond > 0 ? `${updatesPerSecond} updates/s through a second replica` : 'nothing written';
  return { name, title: `${scenario.title}, behind PgBouncer, ${writes}`, atLeast, scenario };
}

export const pooledRows: readonly PooledRow[] = [
  row('pooled-10000', 10_000, 0, 0.9),
  row('pooled-10000-updates', 10_000, 100, 0.85),
  row('pooled-100000-updates', 100_000, 100, 0.8),
];

/**
 * The same two processes take turns in all rounds, so that both meet the same hour of the machine. The updates go to a second
 * replica behind the pooler, whichever process is measured.
 */
export async function measurePooled(
  { title, atLeast, scenario }: PooledRow,
  rounds: number,
  seconds: number,
): Promise<Pooled> {
  await using database = await startDatabase();
  await database.fill(scenario.pets);
  await using started = new AsyncDisposableStack();
  const pooler = await startPooler(database.url, POOL_SIZE);
  started.defer(() => pooler.stop());
  const pooledReader = started.use(await startSide('service', { DATABASE_URL: pooler.url }));
  const directReader = started.use(await startSide('service', { DATABASE_URL: database.url }));
  const writer = started.use(await startSide('service', { DATABASE_URL: pooler.url }));
  const measureReader = (reader: Side) => measure(reader, { ...scenario, seconds }, database, writer);
  const found: Pooled = { title, atLeast, rounds: [] };
  for (let round = 0; round < rounds; round++) {
    console.log(`round ${round + 1}: ${title}`);
    const pooledFirst = round % 2 === 0 ? await measureReader(pooledReader) : undefined;
    const direct = await measureReader(directReader);
    found.rounds.push({ pooled: pooledFirst ?? (await measureReader(pooledReader)), direct });
  }
  return found;
}
