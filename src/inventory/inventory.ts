import type { Snapshot } from '../keys/snapshot.ts';
import type { InventoryItem } from './inventory.dto.ts';
import type { StockList } from './list/stock-list.ts';

/**
 * The contract. Nest injects one of its two services, as FAST says: `InventoryService` works on Prisma, and is the one
 * to read first; `FastInventoryService` in `fast/` shares and remembers, to work less. `test/inventory-service/` tries
 * both.
 *
 * At most MAX_WAITING_REQUESTS lists wait for the database, and as many updates; more fail at once. The index, and the
 * kept list if there is one, are audited five minutes after the start, then hourly. While the synchronous standby is
 * lost, at most five commits of a process wait for it; lists never do.
 */
export abstract class Inventory {
  /**
   * All pets, in ascending `petId`, of one moment: that of the request's key check or later, whoever changes the stock,
   * and how, and after a crash, too. Equal lists have the same tags in every process. At most one reading of the stock
   * runs, besides those that were given up: requests that come during it share the next one. The database begins to
   * respond by the request's deadline, but a reading has at least 400 ms. Waiting and reading end within 25 s.
   *
   * @throws NotApplied (503 `service_unavailable`)
   */
  abstract list(request: ListRequest): Promise<StockList>;

  /**
   * Resolves when the change and its history row, with key, request and `reason`, are committed and durable; the status
   * stays. Every list that is requested later shows it, or a later update. A repetition with the same `idempotencyKey`
   * changes nothing, and resolves as the first update did. An update waits for a session that holds or replaces its
   * pet, but by its deadline it resolves or fails. A rule of the operator's own that refuses or changes what was
   * requested fails this update alone; with a rewrite rule in the way, or without a column or right that it needs, no
   * update takes place. The service never repeats an update of unknown outcome, which may still take effect.
   *
   * @param deadline on the clock of `performance.now()`
   * @throws ApiError `not_found`, `idempotency_key_reused` or `precondition_failed`: nothing was written
   * @throws RefusedValue (400 `validation_failed`): nothing was written
   * @throws NotApplied (503 `service_unavailable`): nothing was written
   * @throws OutcomeUnknown (503 `outcome_unknown`)
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
