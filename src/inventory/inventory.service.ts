import { Injectable } from '@nestjs/common';
import { readFailure, writeFailure } from '../database/database-failure.js';
import type { Snapshot } from '../database/snapshot.js';
import { ApiError } from '../errors/api-error.js';
import { type InventoryItem, itemTag } from './inventory.dto.js';
import { ListCache } from './list-cache.js';
import { type QuantityUpdate, QuantityUpdates, type UpdateOutcome } from './quantity-updates.js';
import type { StockList } from './stock-list.js';

/** The stock: read as a whole, set pet by pet. */
@Injectable()
export class InventoryService {
  constructor(
    private readonly listCache: ListCache,
    private readonly updates: QuantityUpdates,
  ) {}

  /**
   * The complete stock in ascending `petId`, of the given snapshot or a later one.
   *
   * @param deadline by then the database has to have begun to respond
   * @throws NotApplied when the database does not answer
   */
  async list(snapshot: Snapshot, deadline: number): Promise<StockList> {
    try {
      return await this.listCache.at(snapshot, deadline);
    } catch (error) {
      throw readFailure(error);
    }
  }

  /**
   * Sets one pet's quantity; its status stays. Resolves when the change is committed and durable.
   *
   * @throws ApiError `not_found`, `idempotency_key_reused` or `precondition_failed`; NotApplied, OutcomeUnknown
   */
  async setQuantity(update: QuantityUpdate, deadline: number): Promise<UpdateOutcome & { item: InventoryItem }> {
    const result = await this.updates.apply(update, deadline).catch((error: unknown) => {
      throw writeFailure(error);
    });
    switch (result.outcome) {
      case 'key_reused':
        throw new ApiError('idempotency_key_reused');
      case 'absent':
        throw new ApiError('not_found');
      case 'precondition_failed':
        throw new ApiError('precondition_failed', undefined, { ETag: `"${itemTag(result.item)}"` });
      case 'done':
      case 'replayed':
        return result;
    }
  }
}
