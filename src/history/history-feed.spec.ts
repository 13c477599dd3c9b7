import * as timers from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import type { PrismaClient } from '../generated/prisma/client.js';
import type * as HistoryFeed from './history-feed.js';
import type * as OpenWriters from './open-writers.js';

vi.mock('node:timers/promises', async (original) => ({ ...(await original<typeof timers>()), setTimeout: vi.fn() }));

/** The pauses so far. */
const pauses = () => vi.mocked(timers.setTimeout).mock.calls.map(([ms]) => ms);

/** A database that shows one view after another, and then the last one again and again; a text is an outage. */
function database(...views: ([newest: number, ...writers: string[]] | string)[]): PrismaClient {
  const $queryRawUnsafe = () => {
    const [view = ''] = views.length > 1 ? views.splice(0, 1) : views;
    if (typeof view === 'string') return Promise.reject(new Error(view));
    const [newest, ...writers] = view;
    return Promise.resolve([{ newest: BigInt(newest), pruned: 0n, writers }]);
  };
  const findMany = ({ where: { id } }: { where: { id: { gt: bigint; lte: bigint } } }) =>
    Promise.resolve(Array.from({ length: Number(id.lte - id.gt) }, (_, at) => ({ id: id.gt + BigInt(at) + 1n })));
  return { $queryRawUnsafe, stockChange: { findMany } } as unknown as PrismaClient;
}

let feed: typeof HistoryFeed;
let writers: typeof OpenWriters;
beforeAll(async () => {
  vi.resetModules(); // another file may have loaded it with the real pauses
  feed = await import('./history-feed.js');
  writers = await import('./open-writers.js');
});
beforeEach(() => void vi.mocked(timers.setTimeout).mockClear());
afterAll(() => void vi.resetModules()); // others need the real pauses

describe('the newest change', () => {
  it('is the one at first sight, however many come while those who wrote then are waited for', async () => {
    const open = Array.from({ length: 9 }, () => [5, '3/1'] as [number, string]);
    const { newest } = await writers.settled(feed.queryOf(database(...open, [9, '3/2', '4/1'])));
    expect(newest).toBe(5n);
    expect(pauses()).toEqual([2, 4, 8, 16, 32, 64, 128, 200, 200]);
  });

  it('waits for nobody when no change is behind the last one', async () => {
    expect((await writers.settled(feed.queryOf(database([5, '3/1'], [5])), 5n)).newest).toBe(5n);
    expect(pauses()).toEqual([]);
  });

  it('waits for what a restart of PostgreSQL renamed when the name of a writer is gone, also beside a prepared one', async () => {
    await writers.settled(feed.queryOf(database([5, '-1/1', '3/1'], [5, '-1/1', '-1/2'], [5, '-1/2'], [5])));
    expect(pauses()).toEqual([2, 4, 8]);
  });

  it('waits for nothing else that a restart renamed when what it renamed before is resolved', async () => {
    await writers.settled(feed.queryOf(database([5, '-1/1'], [5, '-1/2'])));
    expect(pauses()).toEqual([2]);
  });
});

it('a follower ends when changes were pruned while it read them', async () => {
  const fail = (line: string) => {
    throw new Error(line); // a follower that waits says so
  };
  const told = vi.spyOn(console, 'error').mockImplementation(fail);
  onTestFinished(() => told.mockRestore());
  let [newest, pruned] = [2n, 0n];
  const $queryRawUnsafe = () => Promise.resolve([{ newest, pruned, writers: [] }]);
  const findMany = () => Promise.resolve([]).finally(() => (pruned = 3n));
  const prisma = { $queryRawUnsafe, stockChange: { findMany } } as unknown as PrismaClient;
  const follower = feed.readChanges(prisma, { after: 2n, limit: 1, follow: true });
  expect(await follower.next()).toEqual({ done: false, value: [] });
  newest = 5n;
  const failure = new Error('changes behind 2 are pruned, up to 3; begin anew with "inventory history cursor"');
  await expect(follower.next()).rejects.toThrow(failure);
});

it('a follower looks again soon after a change, ever later while there is none, and slowly while the database is away', async () => {
  const told = vi.spyOn(console, 'error').mockReturnValue();
  onTestFinished(() => told.mockRestore());
  const idle = Array.from({ length: 8 }, () => [1] as [number]);
  const follower = feed.readChanges(database(...idle, [2], [2], [2], 'away', 'away', [2], [3]), {
    after: 1n,
    limit: 1,
    follow: true,
  });
  const read: number[] = [];
  while (read.length < 12) read.push(((await follower.next()).value as unknown[]).length);
  await follower.return(undefined);
  expect(read).toEqual([...Array<number>(8).fill(0), 1, 0, 0, 1]);
  expect(pauses()).toEqual([20, 40, 80, 160, 320, 640, 1_100, 1_100, 10, 20, 1_100, 1_100, 1_100]);
  expect(told.mock.calls).toEqual([['away; waiting for it'], ['the database answers again']]);
});
