import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import type { ClientBase } from 'pg';
import { Batcher } from '../database/batcher.js';
import { NotApplied, TooManyWaiting, outcomeOf } from '../database/database-failure.js';
import { untilDeadline, boundsOfRequest, leastTimeToSend } from '../database/deadline.js';
import { Session } from '../database/session.js';
import { Settings } from '../settings.js';
import type { InventoryItem } from './inventory.dto.js';
import { type QuantityUpdate, type UpdatedRow, updateStatement } from './update-statement.js';

const MOST_PER_STATEMENT = 500;

/**
 * What became of an update. Nothing was written but for `done`; `replayed` took place earlier, under the same key. The item is
 * as the update made it, or as it is where the precondition failed.
 */
export type UpdateOutcome =
  | { readonly outcome: 'done' | 'replayed' | 'precondition_failed'; readonly item: InventoryItem }
  | { readonly outcome: 'key_reused' | 'absent' };

/** PostgreSQL got to read the statement too late, as after a stall of the network. Nothing was written. */
class ReadTooLate extends NotApplied {
  override message = 'the database read the update after its deadline';
}

/** Someone else holds the row or took the key a moment ago. Nothing was written. */
class HeldElsewhere extends NotApplied {}

/** Commits wait for a synchronous standby that does not confirm them. Nothing was sent. */
class CommitsHeld extends NotApplied {
  override message = 'sessions that were given up still wait for the synchronous standby';
}

/** With so many held commits updates are refused: each more would pin another of PostgreSQL's connections. */
const MOST_HELD = 4;

/**
 * Sessions of updates that still wait for a standby's confirmation, long after the service has given them up; and the
 * database's clock, in milliseconds.
 */
const HELD_AND_NOW = `
  SELECT count(*)::int AS held, extract(epoch FROM clock_timestamp()) * 1000 AS now FROM pg_stat_activity
   WHERE application_name = 'inventory updates' AND usename = session_user AND datname = current_database()
     AND wait_event = 'SyncRep' AND query_start < clock_timestamp() - $1 * interval '1 millisecond'`;

/** Sets quantities, the updates that arrive during a database round trip together in the next. */
@Injectable()
export class QuantityUpdates implements OnApplicationShutdown {
  readonly #session: Session;
  readonly #batcher: Batcher<QuantityUpdate, UpdatedRow>;
  readonly #queryTimeoutMs: number;
  /** Commits that waited for a standby, given up, when a session of updates last began. */
  heldCommits = 0;
  /** What the database's clock is ahead of `performance.now()`, as of the session's beginning. */
  #clockAheadMs = 0;

  constructor(settings: Settings) {
    this.#queryTimeoutMs = boundsOfRequest(settings.REQUEST_DEADLINE_MS).query_timeout;
    this.#session = new Session(settings, 'updates', (client) => this.#prepare(client));
    this.#batcher = new Batcher((updates, deadline) => this.#run(updates, deadline), {
      name: 'updates',
      maxCalls: MOST_PER_STATEMENT,
      maxWaiting: settings.MAX_WAITING_REQUESTS,
      open: () => this.#session.open(),
      notSentWithinMs: leastTimeToSend(settings.REQUEST_DEADLINE_MS),
      inHalves: true,
      // Of several updates of a pet each is recorded after the one before, as if that took place for sure. One that has a
      // precondition or a key may not, so it is the only one of its pet.
      order: ({ petId, ifMatch, idempotencyKey }) => ({
        key: petId,
        exclusive: ifMatch !== null || idempotencyKey !== null,
      }),
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
      (failure) => outcomeOf(failure) === 'not_applied' && !(failure instanceof TooManyWaiting),
      async () => {
        const outcome = await this.#attempt(update, deadline);
        // The refusal may come of this key's first use, committed after the statement's snapshot: the next statement sees it.
        const mayBeKnown = outcome.outcome === 'precondition_failed' || outcome.outcome === 'absent';
        return mayBeKnown && update.idempotencyKey !== null ? this.#attempt(update, deadline) : outcome;
      },
    );
  }

  async onApplicationShutdown(): Promise<void> {
    await this.#session.close();
  }

  /** @throws HeldElsewhere, or what the database failed with */
  async #attempt(update: QuantityUpdate, deadline: number): Promise<UpdateOutcome> {
    const [, outcome, status, present] = await this.#batcher.call(update, deadline);
    if (outcome === 'busy') throw new HeldElsewhere();
    if (outcome === 'absent' || outcome === 'key_reused') return { outcome };
    const quantity = outcome === 'precondition_failed' ? Number(present) : update.quantity;
    return { outcome, item: { petId: update.petId, quantity, status } };
  }

  /**
   * Looks at the database's clock, and refuses while commits are held: PostgreSQL keeps the server process of one though its
   * client has left, until the standby confirms it.
   */
  async #prepare(client: ClientBase): Promise<void> {
    const { rows } = await client.query<{ held: number; now: string }>(HELD_AND_NOW, [this.#queryTimeoutMs]);
    const [{ held, now } = { held: 0, now: '0' }] = rows;
    this.heldCommits = held;
    this.#clockAheadMs = Number(now) - performance.now();
    if (this.heldCommits >= MOST_HELD) throw new CommitsHeld();
  }

  /** @throws ReadTooLate, and the next batch has a new session: the clock that is compared with may have been set */
  async #run(updates: readonly QuantityUpdate[], deadline: number): Promise<UpdatedRow[]> {
    const givenUpAt = Math.min(deadline, performance.now() + this.#queryTimeoutMs);
    const lastMs = givenUpAt + this.#clockAheadMs;
    const rows = await this.#session.run<UpdatedRow>(updateStatement(updates, lastMs, this.#queryTimeoutMs));
    if (rows.length > 0) return rows;
    await this.#session.renew();
    throw new ReadTooLate();
  }
}
