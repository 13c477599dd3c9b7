import { randomUUID } from 'node:crypto';
import { asApiError } from '../../src/errors/error.filter.ts';
import type { Inventory, QuantityUpdate, Updated } from '../../src/inventory/inventory.ts';
import { PATIENCE_MS } from './patience.ts';
import type { TestService } from './service.ts';

/** Sets pet 1 to 1. */
export const UPDATE: QuantityUpdate = {
  petId: 1n,
  quantity: 1,
  ifMatch: null,
  changedBy: 'key:test',
  idempotencyKey: null,
  reason: null,
  requestId: 'request',
};

/** What makes an update one of each kind. The condition holds for a pet that is available with 1 or 2. */
export const UPDATE_KINDS: readonly (readonly [kind: string, members: () => Partial<QuantityUpdate>])[] = [
  ['without a condition', () => ({})],
  ['with a condition', () => ({ ifMatch: ['available-1', 'available-2'] })],
  ['with a key', () => ({ idempotencyKey: randomUUID() })],
];

/** What an update resolved to, or the code of its Error and the tag in it. */
export type UpdateResult = Updated | { readonly outcome: string; readonly tag?: string };

/** Makes an update past HTTP: the updates of one turn of the event loop arrive together. */
export async function setQuantity(
  { inventory }: { readonly inventory: Inventory },
  update: Partial<QuantityUpdate>,
  patienceMs = PATIENCE_MS,
): Promise<UpdateResult> {
  try {
    return await inventory.setQuantity({ ...UPDATE, ...update }, performance.now() + patienceMs);
  } catch (error) {
    const { code, headers } = asApiError(error);
    return { outcome: code, ...(headers['ETag'] !== undefined && { tag: headers['ETag'] }) };
  }
}

/** The history of a pet since it was last added, by services alone, in its order. */
export function changesOf({ sql }: Pick<TestService, 'sql'>, petId: number | bigint) {
  return sql<{ before: number; after: number; request_id: string }>(
    `SELECT quantity_before AS before, quantity_after AS after, request_id FROM stock_change
      WHERE pet_id = $1 AND changed_by LIKE 'key:%'
        AND id > (SELECT max(id) FROM stock_change WHERE pet_id = $1 AND quantity_before IS NULL) ORDER BY id`,
    [petId],
  );
}

/** The stock by `petId`. */
export const stockOf = ({ sql }: Pick<TestService, 'sql'>) =>
  sql('SELECT pet_id, quantity, status FROM inventory_item ORDER BY pet_id');
