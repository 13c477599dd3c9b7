import { setTimeout as pause } from 'node:timers/promises';
import type { PrismaClient, StockChange } from '../generated/prisma/client.js';
import { Failure, describeFailure } from '../errors/error-text.js';

/** Only the service compares it. */
export const UNTOLD = { ifMatchSha256: true } as const;
export type Change = Omit<StockChange, keyof typeof UNTOLD>;

/** Ids in one reading, not rows: a bound that holds whatever plan PostgreSQL makes. */
const WINDOW = 10_000n;
const FIRST_PAUSE_MS = 10;
/** Less than one statement a second while nothing changes. */
const LONGEST_PAUSE_MS = 1_100;

/**
 * Every change of every writer behind `after`, each once, by rising id. It ends with the newest one; with `follow` it goes on
 * and waits while the database is away. Without `after` it begins with about the latest `limit` changes.
 * docs/decisions/change-feed.md proves that it misses none.
 */
export async function* readChanges(
  prisma: PrismaClient,
  { after, limit, follow = false }: { after?: bigint; limit: number; follow?: boolean },
): AsyncGenerator<Change[]> {
  let last = after;
  let isAway: boolean | undefined; // undefined until it has answered
  let pauseMs = FIRST_PAUSE_MS;
  for (;;) {
    try {
      const { newest, pruned } = await settled(prisma, last);
      last ??= newest - BigInt(limit) > pruned ? newest - BigInt(limit) : pruned;
      const upTo = newest - last > WINDOW ? last + WINDOW : newest;
      const changes = newest > last ? await between(prisma, last, upTo) : [];
      if (isAway) console.error('the database answers again');
      isAway = false;
      last = upTo;
      yield changes;
      if (upTo < newest) continue; // with changes or without: a transaction that is rolled back leaves its ids unused
      if (!follow) return;
      pauseMs = changes.length > 0 ? FIRST_PAUSE_MS : Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
    } catch (error) {
      if (!follow || isAway === undefined || error instanceof Failure) throw error;
      if (!isAway) console.error(`${describeFailure(error)}; waiting for it`);
      isAway = true;
      pauseMs = LONGEST_PAUSE_MS;
    }
    await pause(pauseMs);
  }
}

/**
 * Waits until nobody can commit a change up to the newest one any more. PREPARE TRANSACTION hands a session's locks on to
 * another name, `-1/…`: when a session is gone, every prepared transaction may be its own.
 */
export async function settled(prisma: PrismaClient, last = 0n) {
  const view = await look(prisma);
  const { newest } = view;
  if (newest < last)
    throw new Failure(`there is no change ${last}, the newest is ${newest}: was the database restored?`);
  let open = newest > last ? view.writers : [];
  for (let pauseMs = 2; open.length > 0; pauseMs = Math.min(2 * pauseMs, 200)) {
    await pause(pauseMs);
    const { writers } = await look(prisma);
    const isPrepared = (writer: string) => writer.startsWith('-1/');
    const handsOn = open.some((writer) => !isPrepared(writer) && !writers.includes(writer));
    open = writers.filter((writer) => open.includes(writer) || (handsOn && isPrepared(writer)));
  }
  return view;
}

async function between(prisma: PrismaClient, last: bigint, upTo: bigint): Promise<Change[]> {
  const where = { id: { gt: last, lte: upTo } };
  const changes = await prisma.stockChange.findMany({ where, orderBy: { id: 'asc' }, omit: UNTOLD });
  const { pruned } = await look(prisma); // after them, so that what was pruned before is known
  if (pruned <= last) return changes;
  throw new Failure(`changes behind ${last} are pruned, up to ${pruned}; begin anew with "inventory history cursor"`);
}

/** What is visible, and whose locks are held then or later: a statement reads pg_locks after it has taken its snapshot. */
async function look(prisma: PrismaClient) {
  const [view] = await prisma.$queryRaw<{ newest: bigint; pruned: bigint; writers: string[] }[]>`
    SELECT coalesce((SELECT max(id) FROM stock_change), 0) AS newest, last_id AS pruned,
           ARRAY(SELECT virtualtransaction FROM pg_locks
                  WHERE relation = 'stock_change'::regclass AND mode = 'RowExclusiveLock' AND granted
                    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) AS writers
      FROM stock_change_pruned WHERE NOT pg_is_in_recovery()`; // a standby's locks tell nothing of the writers
  if (!view) throw Object.assign(new Error('standby'), { code: '25006' });
  return view;
}
