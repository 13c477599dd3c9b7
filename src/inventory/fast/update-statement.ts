import { arrayLiteral, type Statement } from '../../lib/postgres/index.ts';
import { NOT_AS_REQUESTED } from '../../database-errors.ts';
import type { QuantityUpdate } from '../inventory.ts';
import { columns, itemTagOf, KEPT_COLUMNS } from '../item.ts';
import { transactionSettings } from '../update/transaction-settings.ts';
import { chainUpdates } from './update-chain.ts';

/**
 * What became of an update, and the state that the statement found: the pet's before the update; of a repetition, the
 * one that the first update made. `busy`: someone else holds the pet's row. `no_history_row`: someone else took the key
 * a moment ago, or a trigger kept the row back.
 */
export type UpdatedRow = readonly [
  n: string,
  outcome: 'done' | 'replayed' | 'precondition_failed' | 'key_reused' | 'absent' | 'busy' | 'no_history_row',
  quantity: string | null,
  ...keptColumns: (string | null)[],
];

/** The columns of a row by name. */
export function readRow([, outcome, quantity, ...texts]: UpdatedRow) {
  const kept = Object.fromEntries(KEPT_COLUMNS.map(({ name }, at) => [name, texts[at]]));
  return { outcome, found: { quantity: Number(quantity), ...kept } };
}

const kept = (form: string) => columns(form, KEPT_COLUMNS);
const KEPT = kept('#');
const KEPT_BEFORE = kept('#_before');
const KEPT_AFTER = kept('#_after');

const IN_TIME = `statement_timestamp() < to_timestamp($1::float8 / 1000)`;
/** Whether the item has one of these tags. Without tags, any item will do. */
const matches = (tags: string) => `(${tags} IS NULL
                OR ${itemTagOf('item')} = ANY (string_to_array(${tags}, ' ')))`;

/**
 * A damaged index can lead to another pet's row. PostgreSQL finds it by the first condition; the second fails in it.
 */
const isOfPet = (petId: string) => `item.pet_id = ${petId} AND item.pet_id + 0 = ${petId}`;
/** Of a pet that was not locked. Only the row has the quantity, so PostgreSQL reads it and not the index alone. */
const PET_EXISTS = `(SELECT item.quantity >= 0 FROM inventory_item AS item
                     WHERE ${isOfPet('checked.pet_id')})`;

/**
 * Whether the table took what was requested: else a trigger of somebody else changed the row or kept it back. To name
 * `tableoid` makes PostgreSQL refuse this statement if a rule puts another table in its place.
 */
const AS_REQUESTED = `item.tableoid IS NOT NULL AND item.pet_id = checked.pet_id AND item.quantity = checked.quantity
              AND (${kept('item.#')}) IS NOT DISTINCT FROM (${kept('checked.#')}) AS as_requested`;
/** Fails with SQLSTATE 22P02, as a value that a rule refuses. A constant would fail when the statement is planned. */
const REFUSAL = `('${NOT_AS_REQUESTED} ' || n)::int::text`;

/** One update without a key: read it in update-lone.sql. If the statement locked the pet, it returns a row. */
export const LONE = `
  WITH checked AS MATERIALIZED (
    SELECT 1 AS n, $3::bigint AS pet_id, $4::int AS quantity, quantity AS present, ${KEPT},
           ${matches('$8::text')} AS is_accepted,
           ${transactionSettings('$2')}
      FROM inventory_item AS item
     WHERE ${isOfPet('$3::bigint')}
       AND ${IN_TIME}
       FOR NO KEY UPDATE SKIP LOCKED
  ), recorded AS (
    INSERT INTO stock_change (pet_id, quantity_before, quantity_after, ${KEPT_BEFORE}, ${KEPT_AFTER},
                              changed_by, request_id, reason)
    SELECT pet_id, present, quantity, ${KEPT}, ${KEPT}, $5::text, $6::text, $7::text FROM checked WHERE is_accepted
    RETURNING pet_id
  ), changed AS (
    UPDATE inventory_item AS item SET quantity = checked.quantity FROM checked
     WHERE item.pet_id = $3 AND checked.is_accepted
    RETURNING ${AS_REQUESTED}
  )
  SELECT n,
         CASE WHEN NOT is_accepted THEN 'precondition_failed'
              WHEN EXISTS (SELECT FROM recorded) AND (SELECT as_requested FROM changed) THEN 'done'
              ELSE ${REFUSAL}
         END AS outcome,
         present, ${KEPT}
    FROM checked`;

/**
 * Updates of different pets, without conditions and keys: read it in update-plain.sql.
 *
 * Each pet is looked up and locked by its own id: PostgreSQL may plan a join or EXISTS as a scan of the whole table,
 * and a row that got another pet's id would be taken for that pet.
 */
export const PLAIN = `
  WITH settings AS MATERIALIZED (
    SELECT ${transactionSettings('$2')}
  ), requested AS (
    SELECT updates.* FROM settings
     CROSS JOIN unnest($3::bigint[], $4::int[], $5::text[], $6::text[], $7::text[])
                WITH ORDINALITY AS updates (pet_id, quantity, changed_by, request_id, reason, n)
     WHERE ${IN_TIME}
  ), checked AS MATERIALIZED (
    SELECT requested.*, item.quantity AS present, ${KEPT}, item.status IS NOT NULL AS is_accepted
      FROM requested
      LEFT JOIN LATERAL (SELECT quantity, ${KEPT} FROM inventory_item AS item
                          WHERE ${isOfPet('requested.pet_id')}
                            FOR NO KEY UPDATE SKIP LOCKED) AS item ON true
  ), recorded AS (
    INSERT INTO stock_change (pet_id, quantity_before, quantity_after, ${KEPT_BEFORE}, ${KEPT_AFTER},
                              changed_by, request_id, reason)
    SELECT pet_id, present, quantity, ${KEPT}, ${KEPT}, changed_by, request_id, reason
      FROM checked WHERE is_accepted ORDER BY n
    RETURNING pet_id
  ), changed AS (
    UPDATE inventory_item AS item SET quantity = checked.quantity FROM checked
     WHERE item.pet_id = checked.pet_id AND checked.is_accepted
    RETURNING ${AS_REQUESTED}
  )
  SELECT n,
         CASE WHEN is_accepted AND ((SELECT count(*) FROM recorded), (SELECT count(*) FROM changed WHERE as_requested))
                                <> (SELECT count(*), count(*) FROM checked WHERE is_accepted)
              THEN ${REFUSAL}
              WHEN is_accepted THEN 'done'
              WHEN ${PET_EXISTS} THEN 'busy'
              ELSE 'absent'
         END AS outcome,
         present, ${KEPT}
    FROM checked ORDER BY n`;

/**
 * Any updates: read it in update-full.sql. docs/decisions/idempotency-keys.md explains `known`.
 *
 * A pet that is there twice is locked once, by its last update: a lock that comes free in between would break the chain
 * of its history. Each key is looked up by itself, as the pets are.
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
     WHERE ${IN_TIME}
  ), known AS MATERIALIZED (
    SELECT requested.n, change.quantity_after, ${KEPT_AFTER}, pg_logical_emit_message(true, 'inventory', 'replay'),
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
           LATERAL (SELECT quantity, ${KEPT} FROM inventory_item AS item
                     WHERE ${isOfPet('requested.pet_id')}
                       FOR NO KEY UPDATE SKIP LOCKED) AS item
     WHERE is_last
  ), checked AS MATERIALIZED (
    SELECT requested.*, item.quantity AS present, ${KEPT},
           item.status IS NOT NULL
           AND ${matches('if_match')} AS is_accepted
      FROM requested LEFT JOIN locked AS item USING (pet_id)
     WHERE n NOT IN (SELECT n FROM known)
  ), recorded AS (
    INSERT INTO stock_change (pet_id, quantity_before, quantity_after, ${KEPT_BEFORE}, ${KEPT_AFTER},
                              changed_by, request_id, reason, idempotency_key, if_match_sha256)
    SELECT pet_id, coalesce(quantity_before, present), quantity, ${KEPT}, ${KEPT},
           changed_by, request_id, reason, idempotency_key, if_match_sha256
      FROM checked WHERE is_accepted ORDER BY idempotency_key || changed_by, n
        ON CONFLICT (changed_by, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
    RETURNING pet_id, idempotency_key
  ), changed AS (
    UPDATE inventory_item AS item SET quantity = checked.quantity FROM checked
     WHERE item.pet_id = checked.pet_id AND checked.is_accepted AND checked.is_last
       AND item.pet_id IN (SELECT pet_id FROM recorded)
    RETURNING ${AS_REQUESTED}
  )
  SELECT n,
         CASE WHEN is_accepted AND ((SELECT count(*) FROM changed WHERE as_requested),
                                    (SELECT count(*) FROM recorded WHERE idempotency_key IS NULL))
                                <> ((SELECT count(DISTINCT pet_id) FROM recorded),
                                    (SELECT count(*) FROM checked WHERE is_accepted AND idempotency_key IS NULL))
              THEN ${REFUSAL}
              WHEN is_accepted AND pet_id NOT IN (SELECT pet_id FROM recorded) THEN 'no_history_row'
              WHEN is_accepted THEN 'done'
              WHEN present IS NOT NULL THEN 'precondition_failed'
              WHEN ${PET_EXISTS} THEN 'busy'
              ELSE 'absent'
         END AS outcome,
         present, ${KEPT}
    FROM checked
  UNION ALL
  SELECT n, CASE WHEN is_same THEN 'replayed' ELSE 'key_reused' END, quantity_after, ${KEPT_AFTER}
    FROM known
   ORDER BY n`;

const isPlain = ({ ifMatch, idempotencyKey }: QuantityUpdate) => ifMatch === null && idempotencyKey === null;

/**
 * docs/decisions/batched-updates.md says what the shorter texts save.
 *
 * @param lastMs by the database's clock, in milliseconds since 1970: read later, it does nothing and has no rows
 * @param timeoutMs how long its transaction may last before it is committed
 */
export function updateStatement(updates: readonly QuantityUpdate[], lastMs: number, timeoutMs: number): Statement {
  const column = (of: (update: QuantityUpdate) => string | number | bigint | null) => arrayLiteral(updates.map(of));
  const values = [
    ...[lastMs, timeoutMs].map(String),
    column(({ petId }) => petId),
    column(({ quantity }) => quantity),
    column(({ changedBy }) => changedBy),
    column(({ requestId }) => requestId),
    column(({ reason }) => reason),
  ];
  const pets = new Set(updates.map(({ petId }) => petId));
  if (pets.size === updates.length && updates.every(isPlain)) return { sql: PLAIN, values, isEmptyIfLate: true };
  const chained = chainUpdates(updates);
  values.push(
    arrayLiteral(chained.map(({ quantityBefore }) => quantityBefore)),
    arrayLiteral(chained.map(({ isLast }) => isLast)),
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
