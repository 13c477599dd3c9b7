import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import type { ClientBase } from 'pg';
import { NotApplied } from '../database/not-applied.js';
import { Batcher } from '../database/batcher.js';
import { untilDeadline } from '../database/retry.js';
import { Session } from '../database/session.js';
import { StatementRun, arrayLiteral } from '../database/statement-run.js';
import { boundsOfRequest, leastTimeToSend } from '../database/time-bounds.js';
import { Settings } from '../settings.js';
import { isOverload, outcomeOf } from '../errors/database-failure.js';
import type { InventoryItem } from './inventory-item.dto.js';
import { type JudgedRow, type QuantityUpdate, updateStatement } from './update-statement.js';

const MOST_PER_STATEMENT = 500;

/** An update that took place: now, or `replayed`, earlier and under the same key. The item is as the update made it. */
export interface AppliedUpdate {
  readonly outcome: 'done' | 'replayed';
  readonly item: InventoryItem;
}

/** What became of an update. Nothing was written but for `done`. */
export type UpdateOutcome =
  | AppliedUpdate
  | { readonly outcome: 'precondition_failed'; readonly item: InventoryItem }
  | { readonly outcome: 'key_reused' | 'absent' };

/** `missed`: the pet is absent, or someone else holds its row or took the key a moment ago. */
type Answer = UpdateOutcome | { readonly outcome: 'missed' };

/** Someone else holds the row or took the key a moment ago. Nothing was written. */
class RowBusy extends NotApplied {}

/** Commits wait for a synchronous standby that does not confirm them. Nothing was sent. */
class CommitsHeld extends NotApplied {
  override message = 'sessions that were given up still wait for the synchronous standby';
}

/** From so many on no update is sent: each would cost PostgreSQL another of its connections. */
const MOST_HELD = 4;

/** Sessions of updates that still wait for a standby's confirmation, long after the service has given them up. */
const HELD = `
  SELECT count(*)::int AS held FROM pg_stat_activity
   WHERE application_name = 'inventory updates' AND usename = session_user AND datname = current_database()
     AND wait_event = 'SyncRep' AND query_start < clock_timestamp() - $1 * interval '1 millisecond'`;

const EXISTING = 'SELECT pet_id FROM inventory_item WHERE pet_id = ANY ($1::bigint[])';

/** Sets quantities, the updates that arrive during a database round trip together in the next. */
@Injectable()
export class QuantityUpdates implements OnApplicationShutdown {
  readonly #session: Session;
  readonly #trip: Batcher<QuantityUpdate, Answer>;
  readonly #existing: Batcher<bigint, boolean>;
  readonly #queryTimeoutMs: number;
  #heldCommits = 0;

  constructor(settings: Settings) {
    this.#queryTimeoutMs = boundsOfRequest(settings.REQUEST_DEADLINE_MS).query_timeout;
    this.#session = new Session(settings, 'updates', { prepare: (client) => this.#refuseWhileHeld(client) });
    this.#trip = new Batcher((updates) => this.#apply(updates), {
      name: 'updates',
      maxCalls: MOST_PER_STATEMENT,
      maxWaiting: settings.MAX_WAITING_REQUESTS,
      open: () => this.#session.open(),
      notSentWithinMs: leastTimeToSend(settings.REQUEST_DEADLINE_MS),
      inHalves: true,
      // Of several updates of a pet each is recorded after the one before, as if that took place for sure. One that has a
      // precondition or a key may not, so it is the only one of its pet.
      queue: ({ petId, ifMatch, idempotencyKey }) => ({
        of: petId,
        alone: ifMatch !== null || idempotencyKey !== null,
      }),
    });
    this.#existing = new Batcher((pets) => this.#findExisting(pets), {
      maxCalls: MOST_PER_STATEMENT,
      maxWaiting: settings.MAX_WAITING_REQUESTS,
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
        const outcome = await this.#attempt(update, deadline);
        // The refusal may come of this key's first use, committed after the statement's snapshot: the next statement sees it.
        const mayBeKnown = outcome.outcome === 'precondition_failed' || outcome.outcome === 'absent';
        return mayBeKnown && update.idempotencyKey !== null ? this.#attempt(update, deadline) : outcome;
      },
    );
  }

  /** Commits that waited for a standby, given up, when a session of updates last began. */
  get heldCommits(): number {
    return this.#heldCommits;
  }

  async onApplicationShutdown(): Promise<void> {
    await this.#session.close();
  }

  /** @throws RowBusy, or what the database failed with */
  async #attempt(update: QuantityUpdate, deadline: number): Promise<UpdateOutcome> {
    const answer = await this.#trip.call(update, deadline);
    if (answer.outcome !== 'missed') return answer;
    if (await this.#isThere(update.petId, deadline)) throw new RowBusy();
    return { outcome: 'absent' };
  }

  /** PostgreSQL keeps the server process of a waiting commit though its client has left, until the standby confirms it. */
  async #refuseWhileHeld(client: ClientBase): Promise<void> {
    const { rows } = await client.query<{ held: number }>(HELD, [this.#queryTimeoutMs]);
    this.#heldCommits = rows[0]?.held ?? 0;
    if (this.#heldCommits >= MOST_HELD) throw new CommitsHeld();
  }

  async #apply(updates: readonly QuantityUpdate[]): Promise<Answer[]> {
    const run = await this.#session.run(new StatementRun<JudgedRow>([updateStatement(updates)]));
    const judged = new Map(run.rows.map((row) => [Number(row[0]), row]));
    return updates.map(({ petId, quantity }, n) => {
      const row = judged.get(n);
      if (!row) return { outcome: 'missed' };
      const [, outcome, status, present] = row;
      if (outcome === 'key_reused') return { outcome };
      return {
        outcome,
        item: { petId, quantity: outcome === 'precondition_failed' ? Number(present) : quantity, status },
      };
    });
  }

  /** Nothing was written for the pet, so nothing is in doubt when this fails. */
  async #isThere(petId: bigint, deadline: number): Promise<boolean> {
    try {
      return await this.#existing.call(petId, deadline);
    } catch (error) {
      if (outcomeOf(error) !== 'unknown') throw error;
      throw new NotApplied('whether the pet exists could not be read', { cause: error });
    }
  }

  async #findExisting(pets: readonly bigint[]): Promise<boolean[]> {
    const { rows } = await this.#session.run(new StatementRun([{ sql: EXISTING, args: [arrayLiteral(pets)] }]));
    const existing = new Set(rows.map(([petId]) => petId));
    return pets.map((petId) => existing.has(String(petId)));
  }
}
