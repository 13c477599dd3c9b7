import type { Snapshot } from '../keys/snapshot.ts';
import type { InventoryItem } from './inventory.dto.ts';
import type { StockList } from './list/stock-list.ts';

/**
 * The contract. Nest injects one of its two services, as FAST says: `InventoryService` works on Prisma, and is the one
 * to read first; `FastInventoryService` in `fast/` shares and remembers, to work less. `(test: lists)` means
 * `test/inventory-service/lists.e2e-spec.ts`, which tries both, behind PgBouncer where it is installed.
 *
 * Lists:
 * - A list is complete, in ascending `petId`, with every digit (test: lists).
 * - It is of one moment, that of its request's key check or later, whoever changes the stock, and how (tests:
 *   list-changes, locked-tables, slow-networks, standbys), and after a crash, too (tests: crashes, replaced-databases).
 * - Equal lists have the same tags in every process (tests: list-tags, list-changes). In one process they share memory.
 *   At most one reading of the stock runs, besides those that were given up: requests that come during it share the
 *   next one (test: lists).
 * - A list fails if the database does not begin to respond by the request's deadline; a reading has at least 400 ms,
 *   however late it begins (tests: locked-tables, slow-networks). Waiting for a reading and the reading itself end
 *   within 25 s (test: long-lists).
 * - The index, and the kept list if there is one, are audited beside the lists: once five minutes after the start, then
 *   hourly (test: list-audits).
 *
 * Updates:
 * - An update that resolves is committed and durable (test: crashes). Every list that is requested later shows it, or a
 *   later update (test: updates).
 * - The stock and its history change in one transaction, and the status stays (test: updates).
 * - If a constraint or a trigger refuses or changes what was requested, the update fails alone (test: refused-values).
 *   With a rewrite rule in the way, or without a column or right that it needs, no update is made (tests:
 *   rewrite-rules, unusable-tables).
 * - An update whose pet has none of the tags in `ifMatch` fails, and writes nothing (tests: conditions,
 *   random-updates).
 * - A repetition with the same `idempotencyKey` changes nothing, and resolves as the first update did (tests:
 *   repetitions, concurrent-repetitions, random-updates).
 * - The history has the `reason` of the update, and no other (test: reasons).
 * - `not_found` means that there is no such pet. An update waits for a session that holds or replaces its pet (test:
 *   locked-pets).
 * - By its deadline an update resolves or fails (tests: bounds, outcomes). A failure says whether nothing was written,
 *   or whether that is unknown: the update may then still take effect, and the service never repeats it (test:
 *   outcomes).
 *
 * Both:
 * - At most MAX_WAITING_REQUESTS lists wait for the database, and as many updates. More fail at once (test: bounds).
 * - While the synchronous standby is lost, at most five commits of a process wait for it: no update is sent while four
 *   wait, and one sent before may become the fifth. Lists never wait for it. The metrics show how many commits wait
 *   (test: lost-standby).
 */
export abstract class Inventory {
  /** @throws NotApplied (503 `service_unavailable`) */
  abstract list(request: ListRequest): Promise<StockList>;

  /**
   * @param deadline on the clock of `performance.now()`
   * @throws ApiError `not_found`, `idempotency_key_reused` or `precondition_failed`; RefusedValue (400
   *   `validation_failed`); NotApplied (503 `service_unavailable`: nothing was written); OutcomeUnknown (503
   *   `outcome_unknown`)
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
