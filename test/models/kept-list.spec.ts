import { describe, expect, it } from 'vitest';
import { explore } from './explorer.ts';
import { AUDIT_MISTAKES, MISTAKES, type Mistake, keptList } from './kept-list.ts';

const DEPTH = 2 + Math.max(...Object.values(MISTAKES).map(({ order }) => order.length));

describe('the model of the kept list', () => {
  it('has no wrong list in up to two steps more than any mistake needs', () => {
    expect(explore(keptList(), DEPTH)).toEqual({ states: 98_974 });
  });

  it('has no wrong list in as many steps as any mistake needs, with two requests of one process', () => {
    expect(explore(keptList(undefined, 1, 2), DEPTH - 2)).toEqual({ states: 40_828 });
  });

  it.each(Object.entries(MISTAKES))('has a wrong list when %s', (mistake, { list, order }) => {
    const { violation } = explore(keptList(mistake as Mistake, 1), DEPTH);
    expect(violation).toMatchObject({ order, what: `the list ${list} is of no moment of its request` });
  });

  it('finds no difference but a hidden change, and sends no wrong list after that, with an audit', () => {
    expect(explore(keptList(undefined, 1, 1, 1), 11)).toEqual({ states: 44_672 });
  });

  it.each(Object.entries(AUDIT_MISTAKES))('does harm when %s', (mistake, { order, harm }) => {
    const { violation } = explore(keptList(mistake as Mistake, 1, 1, 1), order.length);
    expect(violation).toMatchObject({ order, what: harm });
  });
});
