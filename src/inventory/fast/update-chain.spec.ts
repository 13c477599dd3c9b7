import { describe, expect, it } from 'vitest';
import type { QuantityUpdate } from '../inventory.ts';
import { chainUpdates } from './update-chain.ts';

const update = (petId: bigint, quantity: number): QuantityUpdate => ({
  petId,
  quantity,
  ifMatch: null,
  changedBy: 'key:test',
  idempotencyKey: null,
  reason: null,
  requestId: 'request',
});

describe('chainUpdates', () => {
  it('gives each update what the one before it of the same pet sets, and marks the last one', () => {
    const updates = [update(1n, 10), update(2n, 20), update(1n, 11), update(3n, 0), update(1n, 10), update(3n, 5)];
    expect(chainUpdates(updates)).toEqual([
      { update: updates[0], quantityBefore: null, isLast: false },
      { update: updates[1], quantityBefore: null, isLast: true },
      { update: updates[2], quantityBefore: 10, isLast: false },
      { update: updates[3], quantityBefore: null, isLast: false },
      { update: updates[4], quantityBefore: 11, isLast: true },
      { update: updates[5], quantityBefore: 0, isLast: true },
    ]);
  });
});
