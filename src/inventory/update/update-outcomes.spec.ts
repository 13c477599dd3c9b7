import { describe, expect, it, vi } from 'vitest';
import { itemOf } from '../../../test/support/stock.ts';
import { DeadlinePassed, NotApplied, OutcomeUnknown, TooManyWaiting } from '../../lib/postgres/index.ts';
import { type UpdateOutcome, retryUntilApplied } from './update-outcomes.ts';

const DONE: UpdateOutcome = { outcome: 'done', item: itemOf(1n, 1, 'sold') };
const inTime = () => performance.now() + 5_000;

describe('retryUntilApplied', () => {
  it('tries again while the pet is held, and when nothing was written', async () => {
    const attempt = vi
      .fn<() => Promise<UpdateOutcome>>()
      .mockResolvedValueOnce({ outcome: 'busy' })
      .mockRejectedValueOnce(new NotApplied('no session'))
      .mockResolvedValue(DONE);
    expect(await retryUntilApplied(inTime(), attempt)).toEqual(DONE);
    expect(attempt).toHaveBeenCalledTimes(3);
  });

  it.each([
    ['too many others wait before it', new TooManyWaiting(), NotApplied],
    ['the program is at fault', new TypeError('no such method'), TypeError],
    ['its outcome is unknown', new DeadlinePassed({ sent: true }), OutcomeUnknown],
  ])('does not try again when %s', async (_, failure, thrown) => {
    const attempt = vi.fn<() => Promise<UpdateOutcome>>().mockRejectedValue(failure);
    await expect(retryUntilApplied(inTime(), attempt)).rejects.toBeInstanceOf(thrown);
    expect(attempt).toHaveBeenCalledTimes(1);
  });

  it('says that the outcome is unknown if the deadline ends an attempt that was sent, also after a held pet', async () => {
    const attempt = vi
      .fn<() => Promise<UpdateOutcome>>()
      .mockResolvedValueOnce({ outcome: 'busy' })
      .mockRejectedValue(new DeadlinePassed({ sent: true }));
    await expect(retryUntilApplied(inTime(), attempt)).rejects.toBeInstanceOf(OutcomeUnknown);
  });

  it.each([
    ['absent', 'not_found', {}],
    ['key_reused', 'idempotency_key_reused', {}],
    ['precondition_failed', 'precondition_failed', { ETag: '"sold-1"' }],
  ] as const)('makes an Error of an update that is %s', async (outcome, code, headers) => {
    const update = retryUntilApplied(inTime(), () => Promise.resolve({ ...DONE, outcome }));
    await expect(update).rejects.toMatchObject({ code, headers });
  });
});
