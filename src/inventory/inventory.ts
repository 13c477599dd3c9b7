import type { Snapshot } from '../keys/checked-key.ts';
import type { InventoryItem } from './inventory.dto.ts';
import type { StockList } from './list/stock-list.ts';

/**
 * The contract. Nest injects one of its two services, as FAST says: `InventoryService` works on Prisma, and is the one
 * to read first; `FastInventoryService` in `fast/` shares and remembers, to work less. The tests in
 * `test/inventory-service/` try both, behind PgBouncer where it is installed.
 *
 * At most MAX_WAITING_REQUESTS lists wait for the database, and as many updates; more fail at once. While the
 * synchronous standby is lost, at most five commits of a process wait for it: no update is sent while four wait, and one
 * sent before may become the fifth. Lists never wait for it. `InventoryCounts` has how many commits wait.
 */
export abstract class Inventory {
  /**
   * The whole stock in ascending `petId`, with every digit, as it was at one moment after the request came. This holds
   * whoever changes the stock in whatever way, and after a crash.
   *
   * Equal lists have the same tags in every process, and share memory in one. At most one reading of the stock runs,
   * besides those that were given up; requests that come during it share the next one. Waiting for a reading and the
   * reading itself end within 25 s. The index, and the kept list if there is one, are audited beside the lists: once
   * five minutes after the start, then hourly.
   *
   * @throws NotApplied (503 `service_unavailable`) if the database does not begin to respond by the request's deadline,
   *   or 400 ms after the reading begins if that is later
   */
  abstract list(request: ListRequest): Promise<StockList>;

  /**
   * Resolves or fails by its deadline. If it resolves, the update is committed and durable: every list that is requested
   * later shows it, or a later update. The status stays. The history gets one row in the same transaction, with the
   * `reason` of the update and no other.
   *
   * A repetition with the same `idempotencyKey` changes nothing, and resolves as the first update did. An update waits
   * for a session that holds or replaces its pet. The service repeats an update only if nothing was written.
   *
   * @param deadline on the clock of `performance.now()`
   * @throws ApiError `not_found`: there is no such pet; `precondition_failed`: the pet has none of the tags in
   *   `ifMatch`; `idempotency_key_reused`: another update had the key. Nothing was written.
   * @throws RefusedValue (400 `validation_failed`) if a constraint or a trigger refuses or changes what was requested.
   *   The update fails alone, and nothing was written.
   * @throws NotApplied (503 `service_unavailable`): nothing was written. With a rewrite rule in the way, or without a
   *   column or right that it needs, no update is made.
   * @throws OutcomeUnknown (503 `outcome_unknown`): the update may still take effect
   */
  abstract setQuantity(update: QuantityUpdate, deadline: number): Promise<Updated>;
}

/** What a service may need to know of a request for the list. */
export interface ListRequest {
  /** What had been committed when the key was checked. */
  readonly snapshot: Snapshot;
  /** On the clock of `performance.now()`. */
  readonly deadline: number;
}

export interface QuantityUpdate {
  readonly petId: bigint;
  readonly quantity: number;
  /** The item must have one of these tags; null: no condition. */
  readonly ifMatch: readonly string[] | null;
  /** The author of the change in the history. */
  readonly changedBy: string;
  /** The update takes place once under this key of its author. */
  readonly idempotencyKey: string | null;
  readonly requestId: string;
  /** Why, in the client's words; for the history. */
  readonly reason: string | null;
}

/** An update that was made, or a repetition of one. */
export interface Updated {
  readonly outcome: 'done' | 'replayed';
  readonly item: InventoryItem;
}
