import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { NotApplied } from '../database/not-applied.js';
import { RoundTrip } from '../database/round-trip.js';
import { untilDeadline } from '../database/retry.js';
import { Session } from '../database/session.js';
import { StatementRun, type Value, arrayLiteral } from '../database/statement-run.js';
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

type JudgedRow = readonly [n: string, holds: 't' | 'f', status: PetStatus, present: string];

/** The row is locked by someone else. Nothing was written. */
class RowBusy extends NotApplied {}

/**
 * All updates of a batch: lock what can be had at once, take the updates whose precondition holds, write the last of
 * each pet and a history row for every one. A row that someone else holds is skipped, so the statement never waits for
 * a row, and deadlocks cannot arise; pets that are not locked, or not there, have no row in the answer. Setting
 * `inventory.history` makes the table's own history trigger stand aside.
 */
const update = (asked: string, pets: string) => `
  WITH asked AS MATERIALIZED (
    SELECT *, set_config('inventory.history', 'written', true) FROM ${asked}
        AS asked (n, pet_id, quantity, quantity_before, is_last, only_if, changed_by, request_id)
  ), locked AS MATERIALIZED (
    SELECT pet_id, quantity, status FROM inventory_item WHERE ${pets} FOR NO KEY UPDATE SKIP LOCKED
  ), judged AS MATERIALIZED (
    SELECT asked.*, locked.quantity AS present, locked.status,
           only_if IS NULL OR locked.status || '-' || locked.quantity = ANY (string_to_array(only_if, ' ')) AS holds
      FROM asked JOIN locked USING (pet_id)
  ), changed AS (
    UPDATE inventory_item AS item SET quantity = judged.quantity
      FROM judged WHERE item.pet_id = judged.pet_id AND is_last AND holds
  ), recorded AS (
    INSERT INTO stock_change (pet_id, quantity_before, quantity_after, status_before, status_after, changed_by, request_id)
    SELECT pet_id, coalesce(quantity_before, present), quantity, status, status, changed_by, request_id
      FROM judged WHERE holds ORDER BY n
  )
  SELECT n, holds, status, present FROM judged`;

const UPDATE = update(
  'unnest($1::int[], $2::bigint[], $3::int[], $4::int[], $5::bool[], $6::text[], $7::text[], $8::text[])',
  'pet_id = ANY ($2)',
);
/** The same, and a fifth less work, for the batch of one that a lone client makes. */
const UPDATE_ONE = update(
  '(VALUES ($1::int, $2::bigint, $3::int, $4::int, $5::bool, $6::text, $7::text, $8::text))',
  'pet_id = $2',
);
const EXISTING = 'SELECT pet_id FROM inventory_item WHERE pet_id = ANY ($1::bigint[])';

/** Sets quantities, the updates that arrive during a database round trip together in the next. */
@Injectable()
export class QuantityUpdates implements OnApplicationShutdown {
  readonly #session: Session;
  readonly #trip: RoundTrip<QuantityUpdate, Answer>;

  constructor(environment: Environment) {
    this.#session = new Session(environment, 'updates');
    this.#trip = new RoundTrip((updates) => this.#apply(updates), {
      name: 'updates',
      maxCalls: MOST_PER_STATEMENT,
      maxWaiting: environment.MAX_WAITING_REQUESTS,
      notSentWithinMs: NOT_SENT_WITHIN_MS,
      inHalves: true,
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
    const rows = inOrder(updates);
    const [one, ...others] = rows;
    const statement =
      one && others.length === 0
        ? { sql: UPDATE_ONE, args: one.map((value) => (value === null ? null : String(value))) }
        : { sql: UPDATE, args: COLUMNS.map((column) => arrayLiteral(rows.map((row) => row[column] ?? null))) };
    const run = await this.#session.run(new StatementRun<JudgedRow>([statement]));
    const judged = new Map(run.rows.map((row) => [Number(row[0]), row]));
    const missed = updates.filter((_, n) => !judged.has(n)).map(({ petId }) => petId);
    const existing = missed.length > 0 ? await this.#existing(missed) : missed;
    return updates.map(({ petId, quantity }, n) => {
      const [, holds, status, present] = judged.get(n) ?? [];
      if (status === undefined) return { outcome: existing.includes(petId) ? 'busy' : 'absent' };
      return holds === 't'
        ? { outcome: 'done', item: { petId, quantity, status } }
        : { outcome: 'precondition_failed', item: { petId, quantity: Number(present), status } };
    });
  }

  /** Those of the pets that exist; all of them when that cannot be told, for the others of their batch are done. */
  async #existing(pets: readonly bigint[]): Promise<readonly bigint[]> {
    try {
      const { rows } = await this.#session.run(new StatementRun([{ sql: EXISTING, args: [arrayLiteral(pets)] }]));
      return rows.map(([petId]) => BigInt(petId ?? 0));
    } catch {
      return pets;
    }
  }
}

type AskedRow = readonly Value[];
const COLUMNS = [0, 1, 2, 3, 4, 5, 6, 7] as const;

/** The updates as rows of `asked`: those of one pet follow each other, and the last of them remains. */
function inOrder(updates: readonly QuantityUpdate[]): AskedRow[] {
  const lastOf = new Map(updates.map(({ petId }, n) => [petId, n]));
  const quantities = new Map<bigint, number>();
  return updates.map(({ petId, quantity, onlyIf, changedBy, requestId }, n) => {
    const before = quantities.get(petId) ?? null;
    quantities.set(petId, quantity);
    return [n, petId, quantity, before, lastOf.get(petId) === n, onlyIf?.join(' ') ?? null, changedBy, requestId];
  });
}
