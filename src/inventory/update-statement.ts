import { type Statement, arrayLiteral } from '../database/session.js';
import type { PetStatus } from '../generated/prisma/enums.js';

/** One update as asked for. */
export interface QuantityUpdate {
  readonly petId: bigint;
  /** 0 to 2147483647. */
  readonly quantity: number;
  /** The item tags of which one has to hold, or null when none is asked for. */
  readonly ifMatch: readonly string[] | null;
  /** What goes into the history as the author of the change. */
  readonly changedBy: string;
  /** The author's name for this update, under which it takes place once, or null. */
  readonly idempotencyKey: string | null;
  readonly requestId: string;
}

/** What the statement says of an update. `busy`: someone else holds the pet's row or took the key a moment ago. */
export type UpdatedRow = readonly [
  n: string,
  outcome: 'done' | 'replayed' | 'precondition_failed' | 'key_reused' | 'absent' | 'busy',
  status: PetStatus,
  present: string,
];

const IF_MATCH_SHA256 = `sha256(convert_to(if_match, 'UTF8'))`;

/**
 * All updates of a batch: lock what can be had at once, take the updates whose precondition holds, write the last of
 * each pet and a history row for every one. A row that someone else holds is skipped, so the statement never waits for
 * a row, and deadlocks cannot arise. Setting `inventory.recorded_in` makes the table's own history trigger stand aside.
 * The other settings make the commit durable, and tell when no standby confirmed it: here and not in the session, which a
 * pooler may swap. The last bounds the wait for the bytes that commit, which a network may never bring; it ends when the
 * commit begins, so it cuts no wait for a standby. PostgreSQL 15 and 16 do not know it.
 *
 * Each pet is locked by its own id: a row that has changed since the snapshot is locked as it is now, if it still meets
 * the condition. Met by any of the batch's ids, the row of a pet that was given another's would pass for both.
 *
 * Whether an absent pet is there is asked by a scalar subquery, for PostgreSQL may plan EXISTS as a scan of the whole table.
 *
 * Where an update has a key, `known` are those that the history already has under theirs, and the pet is written only if
 * the history row found its place in the unique index. So a key takes effect once, even when its first use was committed
 * after this statement's snapshot was taken. Two statements insert keys in the same order, or they could deadlock. The
 * message makes the commit wait for what a commit waits for: a response from the history promises as much as the first.
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
 * The statement for a batch.
 *
 * @param lastMs by the database's clock, in milliseconds since 1970: read later than this it does nothing and has no rows
 * @param timeoutMs how long its transaction may last before it is committed
 */
export function updateStatement(updates: readonly QuantityUpdate[], lastMs: number, timeoutMs: number): Statement {
  const lastOf = new Map(updates.map(({ petId }, n) => [petId, n]));
  const quantityOf = new Map<bigint, number>();
  // What an update of a pet finds is what the one before it in the batch asked for, since none of several has a condition
  // that could fail; the first finds what is in the table.
  const quantityBefore = ({ petId, quantity }: QuantityUpdate) => {
    const before = quantityOf.get(petId) ?? null;
    quantityOf.set(petId, quantity);
    return before;
  };
  const columns = [
    updates.map((_, n) => n),
    updates.map(({ petId }) => petId),
    updates.map(({ quantity }) => quantity),
    updates.map(quantityBefore),
    updates.map(({ petId }, n) => lastOf.get(petId) === n),
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
