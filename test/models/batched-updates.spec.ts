import { describe, expect, it } from 'vitest';
import { MISTAKES, type Mistake, batchedUpdates } from './batched-updates.ts';
import { explore } from './explorer.ts';

describe('the model of the batched update', () => {
  it('does no harm in any order of its steps', () => {
    expect(explore(batchedUpdates(), Infinity)).toEqual({ states: 32_124 });
  });

  it.each(Object.entries(MISTAKES))('does harm when %s', (mistake, { workload, order, harm }) => {
    const { initial, ...model } = batchedUpdates(mistake as Mistake);
    const ofWorkload = initial.filter((state) => state.workload === workload);
    const { violation } = explore({ ...model, initial: ofWorkload }, Infinity);
    expect(violation).toMatchObject({ order, what: harm, state: { workload } });
  });
});
