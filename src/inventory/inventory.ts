import type { Snapshot } from '../database/snapshot.js';
import type { InventoryAudits, InventoryCounts } from './inventory-counts.js';
import type { InventoryItem } from './inventory.dto.js';
import type { StockList } from './stock-list.js';

/**
 * What the stock promises, and what Nest injects. `InventoryService` keeps it by Prisma alone, and is the one to read first.
 * `FastInventoryService` in `fast/` keeps it with less work: it shares and remembers. Setting FAST chooses. `(test: lists)` means
 * `test/inventory-service/lists.e2e-spec.ts`, which tries both services, directly and behind PgBouncer.
 *
 * Lists:
 * - A list is complete, in ascending `petId`, with every digit (test: lists).
 * - It is of one moment after its request's key check, whoever changes the stock, and how (tests: list-changes, locked-tables,
 *   slow-networks, standbys), and after a crash, too (tests: crashes, replaced-databases).
 * - Equal lists are one list, whoever reads them. The stock is read once at a time: requests that come during a reading share the
 *   next one. `StockReadings` keeps this for both services (test: lists).
 * - Equal lists have the same tags in every process (tests: list-tags, list-changes).
 * - The database begins to respond by the request's deadline (tests: locked-tables, slow-networks). A reading ends within 25 s,
 *   however long the list is (test: long-lists).
 * - What these promises rest on is audited beside the lists, soon after the start and then hourly (test: list-audits).
 *
 * Updates:
 * - An update that resolves is committed and durable (test: crashes). Every list that is requested later shows it, or a later
 *   update (test: updates).
 * - The stock and its history change in one transaction, and the status stays (test: updates). They change to what was asked, or
 *   the update fails alone, with RefusedValue; but `FastInventoryService` does not notice that a trigger rewrote a history row
 *   (test: refused-values).
 * - While the tables lack a column, or the role a right, nothing is written (test: unusable-tables).
 * - Where a rewrite rule makes PostgreSQL refuse the statement, no update is made (test: rewrite-rules).
 * - An update whose pet has none of the tags in `ifMatch` fails, and writes nothing (tests: conditions, random-updates).
 * - A repetition with the same `idempotencyKey` writes nothing, and resolves as the first update did (tests: repetitions,
 *   concurrent-repetitions, random-updates).
 * - The history has the `reason` of the update, and no other (test: reasons).
 * - `not_found` means that there is no such pet. An update waits for a session that holds or replaces its pet (test: locked-pets).
 * - By its deadline an update resolves or fails (tests: bounds, outcomes). A failure tells whether nothing was written, or whether
 *   that is unknown. An update whose outcome is unknown is never repeated (test: outcomes).
 *
 * Both:
 * - At most MAX_WAITING_REQUESTS lists wait for the database, and as many updates. More fail at once (test: bounds).
 * - A lost synchronous standby holds five commits of a process at most, and no list. The metrics tell how many (test: lost-standby).
 */
export abstract class Inventory {
  abstract readonly counts: InventoryCounts;
  abstract readonly audits: InventoryAudits;

  /** @throws NotApplied */
  abstract list(request: ListRequest): Promise<StockList>;

  /**
   * @param deadline on the clock of `performance.now()`
   * @throws ApiError `not_found`, `idempotency_key_reused` or `precondition_failed`; RefusedValue; NotApplied; OutcomeUnknown
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
  /** The item must have one of these tags; null when the client asks for none. */
  readonly ifMatch: readonly string[] | null;
  /** What a 412 says; undefined for the message of its code. */
  readonly mismatch?: string | undefined;
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
