import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { NotApplied } from '../database/not-applied.js';
import { RoundTrip } from '../database/round-trip.js';
import { untilDeadline } from '../database/retry.js';
import { FIXED_PLANS, Session } from '../database/session.js';
import { Environment } from '../environment.js';
import { isOverload, outcomeOf } from '../errors/database-failure.js';
import type { PetStatus } from '../generated/prisma/enums.js';
import type { InventoryItem } from './inventory-item.dto.js';

const MOST_PER_STATEMENT = 500;

/** A statement takes some milliseconds, on a busy database some dozens. */
const NOT_SENT_WITHIN_MS = 100;

/** One update as asked for. */
export interface QuantityUpdate {
  readonly petId: bigint;
  /** 0 to 2147483647. */
  readonly quantity: number;
  /** The item tags of which one has to hold, or null when none is asked for. */
  readonly onlyIf: readonly string[] | null;
  /** What goes into the history as the author of the change. */
  readonly changedBy: string;
  readonly requestId: string;
}

/** What became of an update. Nothing was written but for `done`. */
export type UpdateOutcome =
  | { readonly outcome: 'done'; readonly item: InventoryItem }
  | { readonly outcome: 'precondition_failed'; readonly item: InventoryItem }
  | { readonly outcome: 'absent' };

type Answer = UpdateOutcome | { readonly outcome: 'busy' };

/** The row is locked by someone else. Nothing was written. */
class RowBusy extends NotApplied {}

/**
 * All updates of a batch: lock what can be had at once, take the updates whose precondition holds, write the last
 * of each pet and a history row for every one. A row that someone else holds is skipped, so the statement never
 * waits for a row, and deadlocks cannot arise. Setting `inventory.history` makes the table's own history trigger
 * stand aside. A scalar subquery asks for a skipped row; EXISTS would be planned as a scan of the whole table.
 */
const UPDATE = `
  WITH asked AS MATERIALIZED (
    SELECT *, set_config('inventory.history', 'written', true)
      FROM unnest($1::bigint[], $2::int[], $3::text[], $4::text[], $5::text[])
        WITH ORDINALITY AS u (pet_id, quantity, only_if, changed_by, request_id, n)
  ), locked AS MATERIALIZED (
    SELECT pet_id, quantity, status FROM inventory_item
     WHERE pet_id = ANY ($1::bigint[]) FOR NO KEY UPDATE SKIP LOCKED
  ), taken AS MATERIALIZED (
    SELECT asked.*, locked.status,
           lag(asked.quantity, 1, locked.quantity) OVER pet AS quantity_before,
           lead(n) OVER pet IS NULL AS is_last
      FROM asked JOIN locked USING (pet_id)
     WHERE asked.only_if IS NULL OR locked.status || '-' || locked.quantity = ANY (string_to_array(asked.only_if, ' '))
    WINDOW pet AS (PARTITION BY pet_id ORDER BY n)
  ), changed AS (
    UPDATE inventory_item AS item SET quantity = taken.quantity
      FROM taken WHERE item.pet_id = taken.pet_id AND taken.is_last
  ), recorded AS (
    INSERT INTO stock_change (pet_id, quantity_before, quantity_after, status_before, status_after, changed_by, request_id)
    SELECT pet_id, quantity_before, quantity, status, status, changed_by, request_id FROM taken ORDER BY n
  )
  SELECT CASE WHEN taken.n IS NOT NULL THEN 'done'
              WHEN locked.pet_id IS NOT NULL THEN 'precondition_failed'
              WHEN (SELECT true FROM inventory_item WHERE pet_id = asked.pet_id) THEN 'busy'
              ELSE 'absent'
         END,
         locked.status,
         locked.quantity
    FROM asked LEFT JOIN locked USING (pet_id) LEFT JOIN taken USING (n)
   ORDER BY asked.n`;

/** Sets quantities, the updates that arrive during a database round trip together in the next. */
@Injectable()
export class QuantityUpdates implements OnApplicationShutdown {
  readonly #session: Session;
  readonly #trip: RoundTrip<QuantityUpdate, Answer>;

  constructor(environment: Environment) {
    this.#session = new Session(environment, 'updates', FIXED_PLANS);
    this.#trip = new RoundTrip((updates) => this.#apply(updates), {
      name: 'updates',
      maxCalls: MOST_PER_STATEMENT,
      maxWaiting: environment.MAX_WAITING_REQUESTS,
      notSentWithinMs: NOT_SENT_WITHIN_MS,
      // Of several updates of a pet each is judged and recorded after the one before. A precondition is judged against
      // the row as it was before the statement, so an update that has one is the only one of its pet.
      queue: ({ petId, onlyIf }) => ({ of: petId, alone: onlyIf !== null }),
    });
  }

  /**
   * Resolves after the commit. What surely had no effect is tried again until the deadline; what may have
   * been committed never is.
   *
   * @param deadline on the clock of `performance.now()`
   * @throws what the database failed with, or that the row stayed locked
   */
  apply(update: QuantityUpdate, deadline: number): Promise<UpdateOutcome> {
    return untilDeadline(
      deadline,
      (failure) => outcomeOf(failure) === 'not_applied' && !isOverload(failure),
      async () => {
        const answer = await this.#trip.call(update, deadline);
        if (answer.outcome === 'busy') throw new RowBusy();
        return answer;
      },
    );
  }

  async onApplicationShutdown(): Promise<void> {
    await this.#session.close();
  }

  async #apply(updates: readonly QuantityUpdate[]): Promise<Answer[]> {
    const rows = await this.#session.query<[Answer['outcome'], PetStatus, number]>(UPDATE, [
      updates.map((update) => update.petId),
      updates.map((update) => update.quantity),
      updates.map((update) => update.onlyIf?.join(' ') ?? null),
      updates.map((update) => update.changedBy),
      updates.map((update) => update.requestId),
    ]);
    return updates.map(({ petId, quantity: asked }, at) => {
      const [outcome, status, present] = rows[at] ?? ['busy'];
      if (outcome === 'absent' || outcome === 'busy') return { outcome };
      return { outcome, item: { petId, quantity: outcome === 'done' ? asked : present, status } };
    });
  }
}
