import type { ClientBase } from 'pg';
import {
  Batcher,
  boundsOfRequest,
  DeadlinePassed,
  FailedCall,
  leastTimeToSend,
  queryOfClient,
  RefusedValue,
  StatementConnection,
} from '../../lib/postgres/index.ts';
import { NOT_AS_REQUESTED, errors, failureOf, sessionOf } from '../../database-errors.ts';
import type { KeyCheck } from '../../keys/key-check.ts';
import type { Settings } from '../../settings.ts';
import { requireFreeCommits } from '../update/held-commits.ts';
import type { InventoryCounts } from '../inventory-counts.ts';
import type { UpdateOutcome } from '../update/update-outcomes.ts';
import type { QuantityUpdate } from '../inventory.ts';
import { type UpdatedRow, loneStatement, updateStatement } from './update-statement.ts';

const MOST_PER_STATEMENT = 500;

const CLOCK = `SELECT extract(epoch FROM clock_timestamp()) * 1000 AS now`;

/** Sets quantities. Updates that arrive during a database round trip share the next one. */
export class QuantityUpdates {
  readonly #connection: StatementConnection;
  readonly #batcher: Batcher<QuantityUpdate, UpdatedRow>;
  readonly #queryTimeoutMs: number;
  readonly #leastTimeMs: number;
  /** How far the database's clock was ahead of `performance.now()` when the session began. */
  #clockAheadMs = 0;

  constructor(
    settings: Settings,
    private readonly counts: InventoryCounts,
    keyCheck: KeyCheck,
  ) {
    this.#queryTimeoutMs = boundsOfRequest(settings.REQUEST_DEADLINE_MS).query_timeout;
    this.#leastTimeMs = leastTimeToSend(settings.REQUEST_DEADLINE_MS);
    this.#connection = new StatementConnection(sessionOf(settings, 'updates'), errors, (client) =>
      this.#prepare(client),
    );
    this.#batcher = new Batcher((updates, deadline) => this.#run(updates, deadline), {
      name: 'updates',
      maxCalls: MOST_PER_STATEMENT,
      maxWaiting: settings.MAX_WAITING_REQUESTS,
      open: () => this.#connection.open(),
      leastTimeLeftMs: this.#leastTimeMs,
      arriving: () => keyCheck.nextUpdateArrives(), // the updates whose keys are being checked are about to join
      // The updates of one pet form a chain: in the history, each begins with the quantity of the one before. An update
      // with If-Match or an Idempotency-Key might not take place, so it has no other update of its pet beside it.
      order: ({ petId, ifMatch, idempotencyKey }) => ({
        key: petId,
        exclusive: ifMatch !== null || idempotencyKey !== null,
      }),
    });
  }

  /** Resolves after the commit. */
  async attempt(update: QuantityUpdate, deadline: number): Promise<UpdateOutcome> {
    let result = await this.#apply(update, deadline);
    // The first use of the key may have committed after the statement's snapshot. The next statement sees it.
    const isKeyed = update.idempotencyKey !== null;
    if (isKeyed && result.outcome === 'precondition_failed') result = await this.#apply(update, deadline);
    if (result.outcome === 'no_history_row') result = await this.#apply(update, deadline);
    if (result.outcome === 'no_history_row') throw new RefusedValue(NOT_AS_REQUESTED);
    return result;
  }

  close(): Promise<void> {
    return this.#connection.close();
  }

  async #apply(update: QuantityUpdate, deadline: number): Promise<UpdateOutcome | { outcome: 'no_history_row' }> {
    const [, outcome, present, status] = await this.#batcher.submit(update, deadline);
    if (status === null || outcome === 'key_reused' || outcome === 'no_history_row') return { outcome };
    const { petId } = update;
    const quantity = outcome === 'precondition_failed' ? Number(present) : update.quantity;
    return { outcome, item: { petId, quantity, status } };
  }

  /** Looks at the database's clock. No session is opened while commits are held. */
  async #prepare(client: ClientBase): Promise<void> {
    await requireFreeCommits(queryOfClient(client), this.counts, this.#queryTimeoutMs);
    const { rows } = await client.query<{ now: string }>(CLOCK);
    this.#clockAheadMs = Number(rows[0]?.now) - performance.now();
  }

  /**
   * A value that a constraint, a policy or a trigger refuses fails the whole statement, which is then surely rolled
   * back. So the updates are sent again in halves, until it fails alone.
   */
  async #run(updates: readonly QuantityUpdate[], deadline: number): Promise<(UpdatedRow | FailedCall)[]> {
    const givenUpAt = Math.min(deadline, performance.now() + this.#queryTimeoutMs);
    const bounds = [givenUpAt + this.#clockAheadMs, this.#queryTimeoutMs] as const;
    try {
      const lone = loneStatement(updates, ...bounds);
      if (lone) {
        const rows = await this.#connection.run<UpdatedRow>(lone);
        if (rows.length > 0) return rows; // else nothing was written, and the next statement tells why
        if (performance.now() + this.#leastTimeMs > deadline) throw new DeadlinePassed({ sent: false });
      }
      return await this.#connection.run(updateStatement(updates, ...bounds));
    } catch (error) {
      if (failureOf(error).outcome !== 'refused' || updates.length === 1) throw error;
    }
    const middle = Math.ceil(updates.length / 2);
    const results: (UpdatedRow | FailedCall)[] = [];
    for (const half of [updates.slice(0, middle), updates.slice(middle)]) {
      const allFail = (reason: unknown) => half.map(() => new FailedCall(reason));
      results.push(...(await this.#run(half, deadline).catch(allFail)));
    }
    return results;
  }
}
