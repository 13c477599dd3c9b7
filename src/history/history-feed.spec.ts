import { describe, expect, it } from 'vitest';
import type { PrismaClient } from '../generated/prisma/client.ts';
import { readChanges } from './history-feed.ts';
import { waitForOpenWriters } from './open-writers.ts';

type Seen = readonly [newest: number, ...writers: string[]];

/** A database that shows one view after another. */
function database(...views: Seen[]) {
  const query = () => {
    const [newest, ...writers] = views.shift() ?? expect.fail('it looked once more');
    return Promise.resolve([{ newest: BigInt(newest), pruned: 0n, writers }]);
  };
  return { query, left: () => views.length };
}

describe('the newest change', () => {
  it('is the one at first sight, however many come while those who wrote then are waited for', async () => {
    const { query, left } = database([5, '3/1'], [8, '3/1', '3/2'], [9, '3/2', '4/1']);
    expect((await waitForOpenWriters(query)).newest).toBe(5n);
    expect(left()).toBe(0);
  });

  it('waits for nobody when no change is behind the last one', async () => {
    expect((await waitForOpenWriters(database([5, '3/1']).query, 5n)).newest).toBe(5n);
  });

  it.each<[string, Seen[]]>([
    ['when the name of a writer is gone', [[5, '-1/1', '3/1'], [5, '-1/1', '-1/2'], [5, '-1/2'], [5]]],
    [
      'not when it was renamed before',
      [
        [5, '-1/1'],
        [5, '-1/2'],
      ],
    ],
  ])('waits for what a restart of PostgreSQL renamed: %s', async (_, views) => {
    const { query, left } = database(...views);
    await waitForOpenWriters(query);
    expect(left()).toBe(0);
  });
});

it('a follower ends when changes were pruned while it read them', async () => {
  let [newest, pruned] = [2n, 0n];
  const $queryRawUnsafe = () => Promise.resolve([{ newest, pruned, writers: [] }]);
  const findMany = () => Promise.resolve([]).finally(() => (pruned = 3n));
  const prisma = { $queryRawUnsafe, stockChange: { findMany } } as unknown as PrismaClient;
  const follower = readChanges(prisma, { after: 2n, limit: 1, follow: true }, console.error);
  expect(await follower.next()).toEqual({ done: false, value: [] });
  newest = 5n;
  const failure = new Error('changes behind 2 are pruned, up to 3; begin anew with "inventory history cursor"');
  await expect(follower.next()).rejects.toThrow(failure);
});
