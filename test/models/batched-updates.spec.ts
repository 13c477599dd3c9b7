import { describe, expect, it } from 'vitest';
import { MISTAKES, type Mistake, batchedUpdates } from './batched-updates.ts';
import { explore, play } from './explorer.ts';

describe('the model of the batched update', () => {
  it('does no harm in any order of its steps', () => {
    expect(explore(batchedUpdates(), Infinity)).toEqual({ states: 21_503 });
  });

  it.each(Object.entries(MISTAKES))('does harm when %s', (mistake, { workload, order, harm }) => {
    const { initial, ...model } = batchedUpdates(mistake as Mistake);
    const ofWorkload = initial.filter((state) => state.workload === workload);
    expect(play({ ...model, initial: ofWorkload }, order)).toBe(harm);
  });
});
