import { describe, expect, it } from 'vitest';
import { explore, play } from './explorer.ts';
import { AUDIT_MISTAKES, MISTAKES, type Mistake, keptList } from './kept-list.ts';

const MOST_STEPS = Math.max(...Object.values(MISTAKES).map(({ order }) => order.length));
/** Each one more doubles the time: `MORE_STEPS=2 npx vitest run test/models` */
const MORE_STEPS = Number(process.env['MORE_STEPS'] ?? 0);

/** The numbers that are known, for so many {@link MORE_STEPS}. */
const statesOf = (known: readonly number[]) => ({ states: known[MORE_STEPS] ?? (expect.any(Number) as number) });

describe('the model of the kept list', () => {
  it('has no wrong list in as many steps as any mistake needs', () => {
    expect(explore(keptList(), MOST_STEPS + MORE_STEPS)).toEqual(statesOf([26_115, 52_501, 98_831]));
  });

  it('has no wrong list in one step fewer, with two requests of one process', () => {
    expect(explore(keptList(undefined, 1, 2), MOST_STEPS - 1 + MORE_STEPS)).toEqual(statesOf([17_560, 40_903]));
  });

  it.each(Object.entries(MISTAKES))('has a wrong list when %s', (mistake, { list, order }) => {
    expect(play(keptList(mistake as Mistake, 1), order)).toBe(`the list ${list} is of no moment of its request`);
  });

  it('finds no difference but a hidden change, and sends no wrong list after that, in 11 steps with an audit', () => {
    // In 12 steps, a request that waits since before the audit gets the wrong list.
    expect(explore(keptList(undefined, 1, 1, 1), 11)).toEqual({ states: 44_672 });
  });

  it.each(Object.entries(AUDIT_MISTAKES))('does harm when %s', (mistake, { order, harm }) => {
    expect(play(keptList(mistake as Mistake, 1, 1, 1), order)).toBe(harm);
  });
});
