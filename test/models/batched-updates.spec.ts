import { describe, expect, it } from 'vitest';
import { MISTAKES, type Mistake, batchedUpdates } from './batched-updates.ts';
import { explore } from './explorer.ts';

const DEPTH = 2 + Math.max(...Object.values(MISTAKES).map(({ order }) => order.length));

describe('the model of the batched update', () => {
  it('does no harm two steps beyond the deepest mistake', () => {
    expect(explore(batchedUpdates(), DEPTH)).toEqual({ states: 32_067 });
  });

  it.each(Object.entries(MISTAKES))('does harm when %s', (mistake, { workload, order, harm }) => {
    const { violation } = explore(batchedUpdates(mistake as Mistake), DEPTH);
    expect(violation).toMatchObject({ order, what: harm, state: { workload } });
  });
});
