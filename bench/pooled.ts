import { startPooler } from '../test/support/pooler.ts';
import { keys, startDatabase, usualPets } from './database.ts';
import { load } from './load.ts';
import { WARM_UP_SECONDS } from './measure.ts';
import { startSide, type Side } from './sides.ts';
import { cpuMs } from './usage.ts';

/** CPU time of a list in µs. */
export interface PooledFigures {
  programCpuUs: number;
  postgresCpuUs: number;
  poolerCpuUs: number;
}

/** Lists of a process behind PgBouncer in transaction mode, compared with one with connections of its own. */
export interface Pooled {
  title: string;
  rounds: { pooled: PooledFigures; direct: PooledFigures }[];
}

type PooledRow = Pick<Pooled, 'title'> & { name: string; pets: number; updatesPerSecond: number };

const POOL_SIZE = 16;
const CONNECTIONS = 32;
const WRITERS = 8;
/** At a steady rate, so that the updates are shared by as many lists each time. */
const LISTS_PER_SECOND = 100;
const ROUNDS = 10;
const SECONDS = 3;

/** A pooled list may take so much of the CPU time of a direct one, the pooler's own included. */
export const POOLED_AT_MOST = 1.6;
export const POOLED_SINCE = '2026-11-25';

function row(name: string, pets: number, updatesPerSecond: number): PooledRow {
  const writes = updatesPerSecond > 0 ? `, ${updatesPerSecond} updates/s beside` : '';
  const title = `list of ${pets.toLocaleString('en')} pets behind PgBouncer${writes}`;
  return { name, title, pets, updatesPerSecond };
}

export const pooledRows: readonly PooledRow[] = [
  row('pooled-10000', 10_000, 0),
  row('pooled-10000-updates', 10_000, 100),
  row('pooled-100000-updates', 100_000, 100),
];

/** Each round starts both processes anew. Every second round runs backwards. Each gets the updates beside its own lists. */
export async function measurePooled(row: PooledRow, isQuick: boolean): Promise<Pooled> {
  const { title, updatesPerSecond } = row;
  const rounds = isQuick ? 2 : ROUNDS;
  console.log(`${title}: ${rounds} rounds`);
  await using database = await startDatabase();
  await database.own.fill(row.pets);
  await using started = new AsyncDisposableStack();
  const pooler = await startPooler(database.own.url, POOL_SIZE);
  started.defer(() => pooler.stop());

  const plan = { headers: { Authorization: `Bearer ${keys.good}` }, pets: usualPets(row.pets) };
  const run = async ({ url }: Side, seconds: number) => {
    const [lists, written] = await Promise.all([
      load({ ...plan, url, mode: 'list', connections: CONNECTIONS, seconds, perSecond: LISTS_PER_SECOND }),
      updatesPerSecond > 0
        ? load({ ...plan, url, mode: 'update', connections: WRITERS, seconds, perSecond: updatesPerSecond })
        : undefined,
    ]);
    const failures = lists.failures + (written?.failures ?? 0);
    if (failures > 0) throw new Error(`${failures} requests failed`);
    return lists;
  };
  const figures = async (databaseUrl: string): Promise<PooledFigures> => {
    await using side = await startSide('service', { DATABASE_URL: databaseUrl });
    await run(side, WARM_UP_SECONDS.first);
    const pids = [side.pid, database.pid, pooler.pid];
    const before = pids.map(cpuMs);
    const { requests } = await run(side, SECONDS);
    const [programCpuUs = NaN, postgresCpuUs = NaN, poolerCpuUs = NaN] = pids.map(
      (pid, at) => ((cpuMs(pid) - (before[at] ?? NaN)) * 1000) / requests,
    );
    return { programCpuUs, postgresCpuUs, poolerCpuUs };
  };

  const found: Pooled = { title, rounds: [] };
  for (let round = 0; round < rounds; round++) {
    const first = await figures(round % 2 === 0 ? pooler.url : database.own.url);
    const second = await figures(round % 2 === 0 ? database.own.url : pooler.url);
    found.rounds.push(round % 2 === 0 ? { pooled: first, direct: second } : { pooled: second, direct: first });
  }
  return found;
}
