import { setTimeout as pause } from 'node:timers/promises';
import type { PrismaClient, StockChange } from '../generated/prisma/client.ts';
import { Failure, queryOfPrisma } from '../lib/postgres/index.ts';
import { failureOf } from '../database-errors.ts';
import { readView, waitForOpenWriters } from './open-writers.ts';

/** Left out of the feed: only the service compares it. */
export const NOT_IN_FEED = { ifMatchSha256: true } as const;
export type Change = Omit<StockChange, keyof typeof NOT_IN_FEED>;

/** Ids in one reading, not rows: a bound that holds whatever plan PostgreSQL makes. */
const WINDOW = 10_000n;
const FIRST_PAUSE_MS = 10;
/** Less than one statement a second while nothing changes. */
const LONGEST_PAUSE_MS = 1_100;

/**
 * Every change of every writer behind `after`, each once, by rising id. It ends with the newest one; with `follow` it
 * goes on and waits while the database is away. Without `after` it begins with about the latest `limit` changes.
 * docs/decisions/change-feed.md proves that it misses none.
 *
 * @param tell gets a line when the database goes away, and one when it is back
 */
export async function* readChanges(
  prisma: PrismaClient,
  { after, limit, follow = false }: { after?: bigint; limit: number; follow?: boolean },
  tell: (line: string) => void,
): AsyncGenerator<Change[]> {
  let last = after;
  let isAway: boolean | undefined; // undefined until it has answered
  let pauseMs = FIRST_PAUSE_MS;
  for (;;) {
    try {
      const { newest, pruned } = await waitForOpenWriters(queryOfPrisma(prisma), last);
      last ??= newest - BigInt(limit) > pruned ? newest - BigInt(limit) : pruned;
      const upTo = newest - last > WINDOW ? last + WINDOW : newest;
      const changes = newest > last ? await between(prisma, last, upTo) : [];
      if (isAway) tell('the database answers again');
      isAway = false;
      last = upTo;
      yield changes;
      if (upTo < newest) continue; // with changes or without: a transaction that is rolled back leaves its ids unused
      if (!follow) return;
      pauseMs = changes.length > 0 ? FIRST_PAUSE_MS : Math.min(2 * pauseMs, LONGEST_PAUSE_MS);
    } catch (error) {
      if (!follow || isAway === undefined || error instanceof Failure) throw error;
      if (!isAway) tell(`${failureOf(error).words}; waiting for it`);
      isAway = true;
      pauseMs = LONGEST_PAUSE_MS;
    }
    await pause(pauseMs);
  }
}

async function between(prisma: PrismaClient, last: bigint, upTo: bigint): Promise<Change[]> {
  const where = { id: { gt: last, lte: upTo } };
  const changes = await prisma.stockChange.findMany({ where, orderBy: { id: 'asc' }, omit: NOT_IN_FEED });
  const { pruned } = await readView(queryOfPrisma(prisma)); // after them, so that what was pruned before is known
  if (pruned <= last) return changes;
  throw new Failure(`changes behind ${last} are pruned, up to ${pruned}; begin anew with "inventory history cursor"`);
}
