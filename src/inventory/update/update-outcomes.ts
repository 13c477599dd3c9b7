import { NotApplied, retryUntilDeadline } from '../../lib/postgres/index.ts';
import { mayWriteAgain, writeFailure } from '../../database-errors.ts';
import { ApiError } from '../../errors/api-error.ts';
import type { Updated } from '../inventory.ts';
import type { InventoryItem } from '../inventory.dto.ts';
import { itemTag } from '../item.ts';

/**
 * Only `done` has changed the stock. The item is the update's result, or the present one where the precondition failed.
 * `busy`: someone else holds the pet's row.
 */
export type UpdateOutcome =
  | { readonly outcome: 'done' | 'replayed' | 'precondition_failed'; readonly item: InventoryItem }
  | { readonly outcome: 'key_reused' }
  | { readonly outcome: 'absent' }
  | { readonly outcome: 'busy' };

/** The pet was busy: the update is tried again. */
class PetIsHeld extends NotApplied {
  override message = 'someone else holds the row';
}
const PET_IS_HELD = 'Another transaction holds this pet at the moment; nothing was written.';

/**
 * Repeats an update that was surely not applied, while that may help and its deadline allows. Makes an Error of what
 * refuses it.
 */
export async function retryUntilApplied(deadline: number, attempt: () => Promise<UpdateOutcome>): Promise<Updated> {
  const unlessBusy = async () => {
    const result = await attempt();
    if (result.outcome === 'busy') throw new PetIsHeld();
    return result;
  };
  const result = await retryUntilDeadline(deadline, mayWriteAgain, unlessBusy).catch((error: unknown) => {
    const failure = writeFailure(error);
    const wasHeld = error instanceof PetIsHeld || (error as Error).cause instanceof PetIsHeld;
    // After a held pet, the deadline may have ended an attempt that was sent: its outcome is unknown.
    if (!wasHeld || !(failure instanceof NotApplied)) throw failure;
    throw new ApiError('service_unavailable', PET_IS_HELD, {}, failure);
  });
  switch (result.outcome) {
    case 'done':
    case 'replayed':
      return { outcome: result.outcome, item: result.item };
    case 'key_reused':
      throw new ApiError('idempotency_key_reused');
    case 'absent':
      throw new ApiError('not_found');
    case 'precondition_failed':
      throw new ApiError('precondition_failed', undefined, { ETag: `"${itemTag(result.item)}"` });
  }
}
