import { arrayLiteral, type Statement } from '../../lib/postgres/index.ts';
import type { InventoryItem } from '../inventory.dto.ts';
import type { QuantityUpdate } from '../inventory.ts';
import { transactionSettings } from '../update/transaction-settings.ts';

type Status = InventoryItem['status'];

/**
 * The place of an update, from 1, what became of it, and the state that the statement found: the pet's before the
 * update; of a repetition, the one that the first update made. `busy`: someone else holds the pet's row.
 * `no_history_row`: someone else took the key a moment ago, or a trigger kept the row back.
 */
export type UpdatedRow =
  | readonly [n: string, outcome: 'done' | 'replayed' | 'precondition_failed', present: string, status: Status]
  | readonly [n: string, outcome: 'key_reused' | 'no_history_row', present: string, status: Status]
  | readonly [n: string, outcome: 'absent' | 'busy', present: null, status: null];

/*
 * Three texts of an update. docs/decisions/batched-updates.md says what the two shorter ones save.
 *
 * Parameters; in PLAIN and FULL, $3 and the later ones are arrays with one element for each update, 1 to 500:
 * $1 until when PostgreSQL may begin, by its own clock, in milliseconds since 1970: later, it does nothing
 * $2 transaction_timeout in milliseconds
 * $3 petId    $4 the new quantity    $5 the author, "key:" and the id of the API key    $6 X-Request-Id
 * $7 Change-Reason, or null
 *
 * Promises of each text:
 * - It waits for no session that holds a pet. Each update that is done is committed with its history row.
 * - An index that is damaged leads to no other pet: PostgreSQL finds the row by `pet_id = …`, and `pet_id + 0 = …` then
 *   compares the id in the row. It also looks up each pet by itself: a join may be planned as a scan of the table.
 * - If a trigger changes a row or keeps it back, the statement fails with SQLSTATE 22P02 (`as_requested`), as it does
 *   for a value that a rule refuses, and writes nothing. The text that cannot be an integer has `n` in it, so that it
 *   fails for this row, and not when PostgreSQL plans the statement.
 * - With a rewrite rule in the way, PostgreSQL refuses the statement, because it names `tableoid`.
 */

/**
 * One update without a key. $8: the tags of If-Match with blanks between them, or null.
 *
 * A row means that it locked the pet: done or precondition_failed. Without a row, it wrote nothing: the pet is absent,
 * another session holds it, or it is too late. Then PLAIN or FULL tells which.
 *
 * PostgreSQL takes 180 µs of CPU time; PLAIN with one update takes 220, and FULL 300.
 */
export const LONE = `
  WITH checked AS MATERIALIZED (
    SELECT 1 AS n, $3::bigint AS pet_id, $4::int AS quantity, quantity AS present, status,
           ($8::text IS NULL
            OR item.status || '-' || item.quantity = ANY (string_to_array($8::text, ' '))) AS is_accepted,
           ${transactionSettings('$2')}
      FROM inventory_item AS item
     WHERE item.pet_id = $3::bigint AND item.pet_id + 0 = $3::bigint
       AND statement_timestamp() < to_timestamp($1::float8 / 1000)
       FOR NO KEY UPDATE SKIP LOCKED
  ), recorded AS (
    INSERT INTO stock_change (pet_id, quantity_before, quantity_after, status_before, status_after,
                              changed_by, request_id, reason)
    SELECT pet_id, present, quantity, status, status, $5::text, $6::text, $7::text FROM checked WHERE is_accepted
    RETURNING pet_id
  ), changed AS (
    UPDATE inventory_item AS item SET quantity = checked.quantity FROM checked
     WHERE item.pet_id = $3 AND checked.is_accepted
    RETURNING item.tableoid IS NOT NULL AND item.pet_id = checked.pet_id AND item.quantity = checked.quantity
              AND item.status IS NOT DISTINCT FROM checked.status AS as_requested
  )
  SELECT n,
         CASE WHEN NOT is_accepted THEN 'precondition_failed'
              WHEN EXISTS (SELECT FROM recorded) AND (SELECT as_requested FROM changed) THEN 'done'
              ELSE ('a trigger changed the row or kept it back; let the trigger raise an error instead '
                    || n)::int::text
         END AS outcome,
         present, status
    FROM checked`;

/**
 * Updates of different pets, without conditions and keys. A row for each in their order, or none if it is too late:
 * done, busy or absent. Whether an unlocked pet exists is read from its row, not from the index alone: the query asks
 * for the quantity.
 *
 * PostgreSQL takes 0.4 ms of CPU time for 8 updates, and 1.6 for 64; FULL takes 0.57 and 2.4.
 */
export const PLAIN = `
  WITH settings AS MATERIALIZED (
    SELECT ${transactionSettings('$2')}
  ), requested AS (
    SELECT updates.* FROM settings
     CROSS JOIN unnest($3::bigint[], $4::int[], $5::text[], $6::text[], $7::text[])
                WITH ORDINALITY AS updates (pet_id, quantity, changed_by, request_id, reason, n)
     WHERE statement_timestamp() < to_timestamp($1::float8 / 1000)
  ), checked AS MATERIALIZED (
    SELECT requested.*, item.quantity AS present, status, item.status IS NOT NULL AS is_accepted
      FROM requested
      LEFT JOIN LATERAL (SELECT quantity, status FROM inventory_item AS item
                          WHERE item.pet_id = requested.pet_id AND item.pet_id + 0 = requested.pet_id
                            FOR NO KEY UPDATE SKIP LOCKED) AS item ON true
  ), recorded AS (
    INSERT INTO stock_change (pet_id, quantity_before, quantity_after, status_before, status_after,
                              changed_by, request_id, reason)
    SELECT pet_id, present, quantity, status, status, changed_by, request_id, reason
      FROM checked WHERE is_accepted ORDER BY n
    RETURNING pet_id
  ), changed AS (
    UPDATE inventory_item AS item SET quantity = checked.quantity FROM checked
     WHERE item.pet_id = checked.pet_id AND checked.is_accepted
    RETURNING item.tableoid IS NOT NULL AND item.pet_id = checked.pet_id AND item.quantity = checked.quantity
              AND item.status IS NOT DISTINCT FROM checked.status AS as_requested
  )
  SELECT n,
         CASE WHEN is_accepted AND ((SELECT count(*) FROM recorded), (SELECT count(*) FROM changed WHERE as_requested))
                                <> (SELECT count(*), count(*) FROM checked WHERE is_accepted)
              THEN ('a trigger changed the row or kept it back; let the trigger raise an error instead '
                    || n)::int::text
              WHEN is_accepted THEN 'done'
              WHEN (SELECT item.quantity >= 0 FROM inventory_item AS item
                     WHERE item.pet_id = checked.pet_id AND item.pet_id + 0 = checked.pet_id) THEN 'busy'
              ELSE 'absent'
         END AS outcome,
         present, status
    FROM checked ORDER BY n`;

/**
 * Any updates. $8: the quantity that the update before it of the same pet sets, or null. $9: whether it is the last one
 * of its pet: only this one locks and writes the pet, but each writes a history row. (A lock that comes free in between
 * would break the chain of the history.) $10: as $8 of LONE. $11: Idempotency-Key, or null.
 *
 * A row for each in their order, or none if it is too late. A key of an author takes effect once: if the history has it
 * (`known`, see docs/decisions/idempotency-keys.md), the outcome is replayed or key_reused. If another session has just
 * taken it, the outcome is no_history_row, and the service sends the update again.
 *
 * PostgreSQL takes 0.3 ms of CPU time for one update, 0.57 for 8, and 2.4 for 64. So updates that wait share it.
 */
export const FULL = `
  WITH settings AS MATERIALIZED (
    SELECT ${transactionSettings('$2')}
  ), requested AS (
    SELECT updates.*,
           CASE WHEN idempotency_key IS NOT NULL THEN sha256(convert_to(if_match, 'UTF8')) END AS if_match_sha256
      FROM settings
     CROSS JOIN unnest($3::bigint[], $4::int[], $5::text[], $6::text[], $7::text[],
                       $8::int[], $9::bool[], $10::text[], $11::text[])
                WITH ORDINALITY AS updates (pet_id, quantity, changed_by, request_id, reason,
                                            quantity_before, is_last, if_match, idempotency_key, n)
     WHERE statement_timestamp() < to_timestamp($1::float8 / 1000)
  ), known AS MATERIALIZED (
    SELECT requested.n, change.quantity_after, status_after, pg_logical_emit_message(true, 'inventory', 'replay'),
           (change.pet_id, change.quantity_after, change.if_match_sha256)
             IS NOT DISTINCT FROM (requested.pet_id, requested.quantity, requested.if_match_sha256) AS is_same
      FROM requested,
           LATERAL (SELECT * FROM stock_change AS change
                     WHERE change.changed_by = requested.changed_by
                       AND change.idempotency_key = requested.idempotency_key
                     LIMIT 1) AS change
     WHERE requested.idempotency_key IS NOT NULL
  ), locked AS MATERIALIZED (
    SELECT requested.pet_id, item.*
      FROM requested,
           LATERAL (SELECT quantity, status FROM inventory_item AS item
                     WHERE item.pet_id = requested.pet_id AND item.pet_id + 0 = requested.pet_id
                       FOR NO KEY UPDATE SKIP LOCKED) AS item
     WHERE is_last
  ), checked AS MATERIALIZED (
    SELECT requested.*, item.quantity AS present, status,
           item.status IS NOT NULL
           AND (if_match IS NULL
                OR item.status || '-' || item.quantity = ANY (string_to_array(if_match, ' '))) AS is_accepted
      FROM requested LEFT JOIN locked AS item USING (pet_id)
     WHERE n NOT IN (SELECT n FROM known)
  ), recorded AS (
    INSERT INTO stock_change (pet_id, quantity_before, quantity_after, status_before, status_after,
                              changed_by, request_id, reason, idempotency_key, if_match_sha256)
    SELECT pet_id, coalesce(quantity_before, present), quantity, status, status,
           changed_by, request_id, reason, idempotency_key, if_match_sha256
      FROM checked WHERE is_accepted ORDER BY idempotency_key || changed_by, n
        ON CONFLICT (changed_by, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
    RETURNING pet_id, idempotency_key
  ), changed AS (
    UPDATE inventory_item AS item SET quantity = checked.quantity FROM checked
     WHERE item.pet_id = checked.pet_id AND checked.is_accepted AND checked.is_last
       AND item.pet_id IN (SELECT pet_id FROM recorded)
    RETURNING item.tableoid IS NOT NULL AND item.pet_id = checked.pet_id AND item.quantity = checked.quantity
              AND item.status IS NOT DISTINCT FROM checked.status AS as_requested
  )
  SELECT n,
         CASE WHEN is_accepted AND ((SELECT count(*) FROM changed WHERE as_requested),
                                    (SELECT count(*) FROM recorded WHERE idempotency_key IS NULL))
                                <> ((SELECT count(DISTINCT pet_id) FROM recorded),
                                    (SELECT count(*) FROM checked WHERE is_accepted AND idempotency_key IS NULL))
              THEN ('a trigger changed the row or kept it back; let the trigger raise an error instead '
                    || n)::int::text
              WHEN is_accepted AND pet_id NOT IN (SELECT pet_id FROM recorded) THEN 'no_history_row'
              WHEN is_accepted THEN 'done'
              WHEN present IS NOT NULL THEN 'precondition_failed'
              WHEN (SELECT item.quantity >= 0 FROM inventory_item AS item
                     WHERE item.pet_id = checked.pet_id AND item.pet_id + 0 = checked.pet_id) THEN 'busy'
              ELSE 'absent'
         END AS outcome,
         present, status
    FROM checked
  UNION ALL
  SELECT n, CASE WHEN is_same THEN 'replayed' ELSE 'key_reused' END, quantity_after, status_after
    FROM known
   ORDER BY n`;

const isPlain = ({ ifMatch, idempotencyKey }: QuantityUpdate) => ifMatch === null && idempotencyKey === null;

/**
 * @param updates with a condition or a key, each is the only one of its pet
 * @param lastMs by the database's clock, in milliseconds since 1970: read later, it does nothing and has no rows
 * @param timeoutMs how long its transaction may last before it is committed
 */
export function updateStatement(updates: readonly QuantityUpdate[], lastMs: number, timeoutMs: number): Statement {
  const column = (of: (update: QuantityUpdate) => string | number | bigint | boolean | null) =>
    arrayLiteral(updates.map(of));
  const values = [
    ...[lastMs, timeoutMs].map(String),
    column(({ petId }) => petId),
    column(({ quantity }) => quantity),
    column(({ changedBy }) => changedBy),
    column(({ requestId }) => requestId),
    column(({ reason }) => reason),
  ];
  const lastOf = new Map(updates.map((update) => [update.petId, update]));
  if (lastOf.size === updates.length && updates.every(isPlain)) return { sql: PLAIN, values, isEmptyIfLate: true };
  // The updates of one pet form a chain: each finds what the one before it sets.
  const quantityOf = new Map<bigint, number>();
  const quantityBefore = ({ petId, quantity }: QuantityUpdate) => {
    const before = quantityOf.get(petId) ?? null;
    quantityOf.set(petId, quantity);
    return before;
  };
  values.push(
    column(quantityBefore),
    column((update) => update === lastOf.get(update.petId)),
    column(({ ifMatch }) => ifMatch?.join(' ') ?? null),
    column(({ idempotencyKey }) => idempotencyKey),
  );
  return { sql: FULL, values, isEmptyIfLate: true };
}

/**
 * What to try first; undefined unless the updates are a lone one without a key. Without a row nothing has happened, and
 * {@link updateStatement} says why.
 */
export function loneStatement(
  [update, ...others]: readonly QuantityUpdate[],
  lastMs: number,
  timeoutMs: number,
): Statement | undefined {
  if (!update || others.length > 0 || update.idempotencyKey !== null) return undefined;
  const { petId, quantity, changedBy, requestId, reason, ifMatch } = update;
  const numbers = [lastMs, timeoutMs, petId, quantity].map(String);
  const values = [...numbers, changedBy, requestId, reason, ifMatch?.join(' ') ?? null];
  return { sql: LONE, values };
}
