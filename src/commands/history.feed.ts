import { setTimeout as pause } from 'node:timers/promises';
import type { PrismaClient, StockChange } from '../generated/prisma/client.js';
import { describeFailure, Failure, isAway } from './failure.js';
import { note } from './output.js';

/** Ids in one reading, not rows: a bound that holds whatever plan PostgreSQL makes. */
const WINDOW = 10_000n;
const FIRST_PAUSE_MS = 10;
/** Less than one statement a second while nothing changes. */
const LONGEST_PAUSE_MS = 1_100;
const LONGEST_SETTLE_PAUSE_MS = 200;

/**
 * Every change of every writer behind `last` once, in the order of the ids, up to the newest of now or, with `follow`,
 * without end; a database that goes away after it has answered is waited for then.
 *
 * Ids are given before commits, so what is visible behind an id is not yet all that will be. Why {@link settled} is exact:
 * 1. Ids are given in rising order, so every id up to a visible N was given before N was seen.
 * 2. A statement locks the table (ROW EXCLUSIVE) before it is given an id, and its transaction keeps the lock to its end.
 * 3. So whoever may still commit an id up to N is among the holders that are read after N.
 * 4. A commit is visible before its locks are released: once these have ended, the next statement sees all up to N.
 * 5. PREPARE TRANSACTION hands the lock on to another name, `-1/…`, so a prepared holder counts whenever it appears.
 */
export async function* readChanges(prisma: PrismaClient, last: bigint, follow: boolean): AsyncGenerator<StockChange[]> {
  let answered = false;
  let lost = false;
  let pauseMs = FIRST_PAUSE_MS;
  for (let more = true; more;) {
    try {
      const newest = await settled(prisma, last);
      const upTo = newest - last > WINDOW ? last + WINDOW : newest;
      const changes = newest > last ? await between(prisma, last, upTo) : [];
      if (lost) note('the database answers again');
      [answered, lost, last, more] = [true, false, upTo, follow || upTo < newest];
      yield changes;
      pauseMs = changes.length > 0 ? FIRST_PAUSE_MS : Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
    } catch (error) {
      if (!follow || !answered || !isAway(error)) throw error;
      if (!lost) note(`${describeFailure(error)}; waiting for it`);
      [lost, pauseMs] = [true, LONGEST_PAUSE_MS];
    }
    if (more) await pause(pauseMs);
  }
}

/** The change behind which the latest `count` are. */
export async function beforeLatest(prisma: PrismaClient, count: number): Promise<bigint> {
  await settled(prisma, 0n); // so that nothing before it is still to come
  const [start] = await prisma.stockChange.findMany({ orderBy: { id: 'desc' }, skip: count, take: 1 });
  const { pruned } = await readEnds(prisma);
  return start && start.id > pruned ? start.id : pruned;
}

/** Waits until nobody can commit a change any more up to the newest that is visible now, and returns that one. */
async function settled(prisma: PrismaClient, last: bigint): Promise<bigint> {
  const { newest, standby } = await readEnds(prisma);
  if (standby) throw Object.assign(new Error('standby'), { code: '25006' }); // its locks tell nothing of the writers
  if (newest < last)
    throw new Failure(
      `there is no change ${last}, the newest is ${newest}: was the database restored, or is it another?`,
    );
  let open = newest > last ? await writers(prisma) : [];
  for (let pauseMs = 2; open.length > 0; pauseMs = Math.min(2 * pauseMs, LONGEST_SETTLE_PAUSE_MS)) {
    await pause(pauseMs);
    const noted = new Set(open);
    open = (await writers(prisma)).filter((writer) => noted.has(writer) || writer.startsWith('-1/'));
  }
  return newest;
}

async function writers(prisma: PrismaClient): Promise<string[]> {
  const rows = await prisma.$queryRaw<{ writer: string }[]>`
    SELECT DISTINCT virtualtransaction AS writer FROM pg_locks
     WHERE relation = 'stock_change'::regclass AND mode = 'RowExclusiveLock' AND granted
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;
  return rows.map(({ writer }) => writer);
}

async function between(prisma: PrismaClient, last: bigint, upTo: bigint): Promise<StockChange[]> {
  const where = { id: { gt: last, lte: upTo } };
  const changes = await prisma.stockChange.findMany({ where, orderBy: { id: 'asc' } });
  const { pruned } = await readEnds(prisma); // after them, so that what was pruned before is known
  if (pruned <= last) return changes;
  throw new Failure(`changes behind ${last} are pruned, up to ${pruned}; read the stock, then --after ${pruned}`);
}

async function readEnds(prisma: PrismaClient): Promise<{ newest: bigint; pruned: bigint; standby: boolean }> {
  const [ends] = await prisma.$queryRaw<Awaited<ReturnType<typeof readEnds>>[]>`
    SELECT coalesce((SELECT max(id) FROM stock_change), 0) AS newest, last_id AS pruned, pg_is_in_recovery() AS standby
      FROM stock_change_pruned`;
  if (!ends) throw new Failure('stock_change_pruned has lost its row, so what was pruned is not known');
  return ends;
}
