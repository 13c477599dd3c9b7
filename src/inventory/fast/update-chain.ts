import type { QuantityUpdate } from '../inventory.ts';

/** An update of a batch, with what the updates of the same pet around it mean for it. */
export interface ChainedUpdate {
  readonly update: QuantityUpdate;
  /** What the update before it in the batch sets; null for the first, which finds what is in the table. */
  readonly quantityBefore: number | null;
  /** Only the last update of a pet is written to the table; the history gets them all. */
  readonly isLast: boolean;
}

/** Each update finds what the one before it asks for: of several of a pet, none has a condition that could fail. */
export function chainUpdates(updates: readonly QuantityUpdate[]): ChainedUpdate[] {
  const lastOf = new Map<bigint, QuantityUpdate>();
  const quantitiesBefore = updates.map((update) => {
    const before = lastOf.get(update.petId)?.quantity ?? null;
    lastOf.set(update.petId, update);
    return before;
  });
  return updates.map((update, at) => ({
    update,
    quantityBefore: quantitiesBefore[at] ?? null,
    isLast: lastOf.get(update.petId) === update,
  }));
}
