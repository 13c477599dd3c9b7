import type { ClientBase } from 'pg';
import { Batcher } from '../../database/batcher.js';
import { NotApplied } from '../../database/database-failure.js';
import { boundsOfRequest, leastTimeToSend } from '../../database/deadline.js';
import { Session, type Statement, arrayLiteral } from '../../database/session.js';
import type { PetStatus } from '../../generated/prisma/enums.js';
import type { Settings } from '../../settings.js';
import type { InventoryService, QuantityUpdate, UpdateOutcome } from '../inventory.service.js';

/** What the statement says of an update. `busy`: someone else holds the pet's row or took the key a moment ago. */
export type UpdatedRow = readonly [
  n: string,
  outcome: 'done' | 'replayed' | 'precondition_failed' | 'key_reused' | 'absent' | 'busy',
  status: PetStatus,
  present: string,
];

const IF_MATCH_SHA256 = `sha256(convert_to(if_match, 'UTF8'))`;

/**
 * All updates of a batch: lock what can be had at once, take the updates whose precondition holds, write the last of each
 * pet and a history row for every one. It never waits for a row, so deadlocks cannot arise. `inventory.recorded_in` makes
 * the table's own history trigger stand aside. The other settings make the commit durable, and tell when no standby
 * confirmed it: here and not in the session, which a pooler may swap. The last bounds the wait for the bytes that commit,
 * which a network may never bring, and cuts no wait for a standby; PostgreSQL 15 and 16 do not know it.
 *
 * Each pet is locked by its own id: a row that has changed since the snapshot is locked as it is now, if it still meets the
 * condition, and one that was given another pet's id would meet that of any id of the batch. Absent pets are looked up by a
 * scalar subquery, for PostgreSQL may plan EXISTS as a scan of the whole table.
 *
 * Where an update has a key, `known` are those that the history already has under theirs, and the pet is written only if
 * the history row found its place in the unique index. So a key takes effect once, even when its first use was committed
 * after this statement's snapshot. Two statements insert keys in the same order, or they could deadlock. The message makes
 * the commit wait for a standby: a response from the history promises as much as the first.
 */
const update = (keyed: boolean) => {
  const ifKeyed = (sql: string) => (keyed ? sql : '');
  return `
  WITH settings AS MATERIALIZED (
    SELECT set_config('inventory.recorded_in', pg_current_xact_id()::text, true),
           set_config('client_min_messages', 'warning', true),
           CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END,
           CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL
                THEN set_config('transaction_timeout', $11, true) END
  ), asked AS MATERIALIZED (
    SELECT asked.* FROM settings,
      unnest($1::int[], $2::bigint[], $3::int[], $4::int[], $5::bool[], $6::text[], $7::text[], $8::text[], $9::text[])
        AS asked (n, pet_id, quantity, quantity_before, is_last, if_match, changed_by, request_id, idempotency_key)
     WHERE extract(epoch FROM statement_timestamp()) * 1000 < $10::numeric
  ), ${ifKeyed(`known AS MATERIALIZED (
    SELECT n, status_after, quantity_after, pg_logical_emit_message(true, 'inventory', 'replay'),
           (change.pet_id, quantity_after, if_match_sha256)
             IS NOT DISTINCT FROM (asked.pet_id, quantity, ${IF_MATCH_SHA256}) AS is_same
      FROM asked JOIN stock_change AS change USING (changed_by, idempotency_key) WHERE idempotency_key IS NOT NULL
  ), `)}locked AS MATERIALIZED (
    SELECT wanted.pet_id, quantity, status FROM (SELECT DISTINCT pet_id FROM asked) AS wanted,
      LATERAL (SELECT quantity, status FROM inventory_item AS item WHERE item.pet_id = wanted.pet_id
                  FOR NO KEY UPDATE SKIP LOCKED) AS item
  ), judged AS MATERIALIZED (
    SELECT asked.*, locked.quantity AS present, locked.status,
           locked.quantity IS NOT NULL
             AND (if_match IS NULL OR locked.status || '-' || locked.quantity = ANY (string_to_array(if_match, ' '))) AS holds
      FROM asked LEFT JOIN locked USING (pet_id) ${ifKeyed('WHERE n NOT IN (SELECT n FROM known)')}
  ), recorded AS (
    INSERT INTO stock_change (pet_id, quantity_before, quantity_after, status_before, status_after, changed_by, request_id
           ${ifKeyed(', idempotency_key, if_match_sha256')})
    SELECT pet_id, coalesce(quantity_before, present), quantity, status, status, changed_by, request_id
           ${ifKeyed(`, idempotency_key, CASE WHEN idempotency_key IS NOT NULL THEN ${IF_MATCH_SHA256} END`)}
      FROM judged WHERE holds ORDER BY ${ifKeyed('idempotency_key || changed_by, ')} n
    ${ifKeyed(`ON CONFLICT (changed_by, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING RETURNING pet_id`)}
  ), changed AS (
    UPDATE inventory_item AS item SET quantity = judged.quantity
      FROM judged WHERE item.pet_id = judged.pet_id AND is_last AND holds
                    ${ifKeyed('AND item.pet_id IN (SELECT pet_id FROM recorded)')}
  )
  SELECT n, CASE WHEN holds THEN ${keyed ? `CASE WHEN pet_id IN (SELECT pet_id FROM recorded) THEN 'done' ELSE 'busy' END` : `'done'`}
                 WHEN present IS NOT NULL THEN 'precondition_failed'
                 WHEN (SELECT true FROM inventory_item AS item WHERE item.pet_id = judged.pet_id) THEN 'busy'
                 ELSE 'absent' END, status, present FROM judged
  ${ifKeyed(`UNION ALL SELECT n, CASE WHEN is_same THEN 'replayed' ELSE 'key_reused' END, status_after, quantity_after FROM known`)}
  ORDER BY n`;
};

/** Keys cost the statement a fifth, so a batch without any has one that knows of none. */
const UPDATE = update(false);
const UPDATE_WITH_KEYS = update(true);

/**
 * @param lastMs by the database's clock, in milliseconds since 1970: read later than this it does nothing and has no rows
 * @param timeoutMs how long its transaction may last before it is committed
 */
export function updateStatement(updates: readonly QuantityUpdate[], lastMs: number, timeoutMs: number): Statement {
  const lastOf = new Map<bigint, QuantityUpdate>();
  // What an update of a pet finds is what the one before it in the batch asked for, since none of several has a condition
  // that could fail; the first finds what is in the table.
  const quantitiesBefore = updates.map((each) => {
    const before = lastOf.get(each.petId)?.quantity ?? null;
    lastOf.set(each.petId, each);
    return before;
  });
  const columns = [
    updates.map((_, n) => n),
    updates.map(({ petId }) => petId),
    updates.map(({ quantity }) => quantity),
    quantitiesBefore,
    updates.map((each) => lastOf.get(each.petId) === each),
    updates.map(({ ifMatch }) => ifMatch?.join(' ') ?? null),
    updates.map(({ changedBy }) => changedBy),
    updates.map(({ requestId }) => requestId),
    updates.map(({ idempotencyKey }) => idempotencyKey),
  ];
  return {
    sql: updates.some(({ idempotencyKey }) => idempotencyKey !== null) ? UPDATE_WITH_KEYS : UPDATE,
    values: [...columns.map((column) => arrayLiteral(column)), String(lastMs), String(timeoutMs)],
  };
}

const MOST_PER_STATEMENT = 500;

/** With so many held commits updates are refused: each more would pin another of PostgreSQL's connections. */
const MOST_HELD = 4;

/** Sessions of updates that wait for a standby, long after the service has given them up; and the database's clock. */
const HELD_AND_NOW = `
  SELECT count(*)::int AS held, extract(epoch FROM clock_timestamp()) * 1000 AS now FROM pg_stat_activity
   WHERE application_name = 'inventory updates' AND usename = session_user AND datname = current_database()
     AND wait_event = 'SyncRep' AND query_start < clock_timestamp() - $1 * interval '1 millisecond'`;

/** Sets quantities, the updates that arrive during a database round trip together in the next. */
export class QuantityUpdates {
  readonly #session: Session;
  readonly #batcher: Batcher<QuantityUpdate, UpdatedRow>;
  readonly #queryTimeoutMs: number;
  /** What the database's clock is ahead of `performance.now()`, as of the session's beginning. */
  #clockAheadMs = 0;

  constructor(
    settings: Settings,
    /** Of which `heldCommits` is what it was when a session of updates last began. */
    private readonly counts: InventoryService['counts'],
  ) {
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

  /** Resolves after the commit. */
  async attempt(update: QuantityUpdate, deadline: number): Promise<UpdateOutcome> {
    const outcome = await this.#apply(update, deadline);
    // The refusal may come of this key's first use, committed after the statement's snapshot: the next statement sees it.
    const mayBeKnown = outcome.outcome === 'precondition_failed' || outcome.outcome === 'absent';
    return mayBeKnown && update.idempotencyKey !== null ? this.#apply(update, deadline) : outcome;
  }

  async close(): Promise<void> {
    await this.#session.close();
  }

  async #apply(update: QuantityUpdate, deadline: number): Promise<UpdateOutcome> {
    const [, outcome, status, present] = await this.#batcher.call(update, deadline);
    if (outcome === 'busy') throw new NotApplied('someone else holds the row, or took the key a moment ago');
    if (outcome === 'absent' || outcome === 'key_reused') return { outcome };
    const quantity = outcome === 'precondition_failed' ? Number(present) : update.quantity;
    return { outcome, item: { petId: update.petId, quantity, status } };
  }

  /** Looks at the database's clock, and refuses while commits are held: PostgreSQL keeps their processes without a client. */
  async #prepare(client: ClientBase): Promise<void> {
    const { rows } = await client.query<{ held: number; now: string }>(HELD_AND_NOW, [this.#queryTimeoutMs]);
    const [{ held, now } = { held: 0, now: '0' }] = rows;
    this.counts.heldCommits = held;
    this.#clockAheadMs = Number(now) - performance.now();
    if (held >= MOST_HELD) throw new Error('sessions that were given up still wait for the synchronous standby');
  }

  #run(updates: readonly QuantityUpdate[], deadline: number): Promise<UpdatedRow[]> {
    const givenUpAt = Math.min(deadline, performance.now() + this.#queryTimeoutMs);
    const lastMs = givenUpAt + this.#clockAheadMs;
    return this.#session.run(updateStatement(updates, lastMs, this.#queryTimeoutMs));
  }
}
