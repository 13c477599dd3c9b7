import type { PrismaClient } from '../generated/prisma/client.ts';
import { MAX_PET_ID } from '../inventory/item-limits.ts';
import { type Change, NOT_IN_FEED } from './history-feed.ts';

/** Rows of the history in one statement, which so ends within the command's time-out. */
const PIECE = 10_000;
const DAY_MS = 86_400_000;

export interface Search {
  readonly petId?: bigint;
  readonly since?: Date;
  /** The X-Request-Id. */
  readonly request?: string;
  /** An author as the history has it, or `key:` and a name: all keys of this name count. */
  readonly by?: string;
}

/**
 * The changes that match, newest first. It reads by id: an index on times, requests or authors would cost each update.
 *
 * A change has the time when its transaction began, so one with a lower id can be more recent. The search therefore
 * ends with a piece that is older than `since` by a day. A transaction that was open for longer can be missed.
 *
 * @param limit the most changes in all
 */
export async function searchHistory(
  prisma: PrismaClient,
  { petId, since, request, by }: Search,
  limit: number,
): Promise<Change[]> {
  const match = {
    ...(since && { changedAt: { gte: since } }),
    ...(request !== undefined && { requestId: request }),
    ...(by !== undefined && { changedBy: { in: [by, ...(await keysNamed(prisma, by))] } }),
  };
  const end = new Date((since ?? new Date(0)).getTime() - DAY_MS);
  let last = MAX_PET_ID; // which is the highest id, too
  const changes: Change[] = [];
  while (changes.length < limit) {
    const where = { ...(petId !== undefined && { petId }), id: { lte: last } };
    const newest = { orderBy: { id: 'desc' }, take: PIECE } as const;
    const piece = await prisma.stockChange.aggregate({
      where,
      ...newest,
      _min: { id: true },
      _max: { changedAt: true },
    });
    const { id: first } = piece._min;
    if (first === null) break;
    const found = { ...where, ...match, id: { gte: first, lte: last } };
    const take = limit - changes.length;
    changes.push(...(await prisma.stockChange.findMany({ where: found, ...newest, take, omit: NOT_IN_FEED })));
    if ((piece._max.changedAt ?? end) < end) break;
    last = first - 1n;
  }
  return changes;
}

/** The keys of this name, as authors in the history: a key and its successors share a name. */
async function keysNamed(prisma: PrismaClient, by: string): Promise<string[]> {
  if (!by.startsWith('key:')) return [];
  const keys = await prisma.apiKey.findMany({ where: { name: by.slice('key:'.length) }, select: { id: true } });
  return keys.map(({ id }) => `key:${id}`);
}
