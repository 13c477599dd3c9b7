import { type Statement, arrayLiteral } from '../../lib/postgres/statement-connection.ts';
import { NOT_AS_ASKED } from '../../lib/postgres/database-failure.ts';
import type { QuantityUpdate } from '../inventory.ts';
import { NOT_UPDATED, itemTagOf, stateList } from '../stock/stock-item.ts';
import { chainUpdates } from './update-chain.ts';

/**
 * What the statement says of an update. `busy`: someone else holds the pet's row. `no_history_row`: someone
 * else took the key a moment ago, or a trigger kept the row back.
 */
export type UpdatedRow = readonly [
  n: string,
  outcome: 'done' | 'replayed' | 'precondition_failed' | 'key_reused' | 'absent' | 'busy' | 'no_history_row',
  present: string,
  ...notUpdated: (string | null)[],
];

const notUpdated = (form: string) => stateList(form, NOT_UPDATED);

/**
 * What the transaction sets for itself. With `client_min_messages = error`, PostgreSQL would not tell that no standby has confirmed the
 * commit. `transaction_timeout` is new in PostgreSQL 17.
 */
const SET_FOR_TRANSACTION = `
           set_config('inventory.recorded_in', pg_current_xact_id()::text, true),
           CASE current_setting('client_min_messages') WHEN 'error' THEN set_config('client_min_messages', 'warning', true) END,
           CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END,
           CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL
                THEN set_config('transaction_timeout', $2, true) END`;
const IN_TIME = `statement_timestamp() < to_timestamp($1::float8 / 1000)`;
/** Whether the item has one of these tags. Without tags, any item will do. */
const matches = (tags: string) => `(${tags} IS NULL OR ${itemTagOf('item')} = ANY (string_to_array(${tags}, ' ')))`;

/** A damaged index can lead to another pet's row. By the first of these, PostgreSQL finds a row; the second it looks up in that row. */
const isOfPet = (petId: string) => `item.pet_id = ${petId} AND item.pet_id + 0 = ${petId}`;
/** Of a pet that could not be locked. The quantity is in the row alone, so PostgreSQL has to look there and not at the index alone. */
const BUSY_OR_ABSENT = `
                 WHEN (SELECT item.quantity >= 0 FROM inventory_item AS item WHERE ${isOfPet('judged.pet_id')}) THEN 'busy'
                 ELSE 'absent' END`;

/**
 * Whether the table took what was asked: else a trigger of somebody else changed the row or kept it back. To name `tableoid` makes
 * PostgreSQL refuse this statement if a rule puts another table in its place.
 */
const AS_ASKED = `
           item.tableoid IS NOT NULL AND item.pet_id = judged.pet_id AND item.quantity = judged.quantity
           AND (${notUpdated('item.#')}) IS NOT DISTINCT FROM (${notUpdated('judged.#')}) AS as_asked`;
/** Fails with SQLSTATE 22P02, as a value that a rule refuses. A constant would fail when PostgreSQL plans the statement. */
const REFUSAL = `('${NOT_AS_ASKED} ' || n)::int::text`;

/**
 * One update without a key. It has no row if the pet is absent or busy, or if it is too late: then nothing has happened, and the
 * other texts tell which. A locked pet always has a row, whatever a trigger does to it.
 */
export const LONE = `
  WITH judged AS MATERIALIZED (
    SELECT 1 AS n, $3::bigint AS pet_id, $4::int AS quantity, quantity AS present, ${notUpdated('#')},
           ${matches('$8::text')} AS holds, ${SET_FOR_TRANSACTION}
      FROM inventory_item AS item WHERE ${isOfPet('$3::bigint')} AND ${IN_TIME} FOR NO KEY UPDATE SKIP LOCKED
  ), recorded AS (
    INSERT INTO stock_change (pet_id, quantity_before, quantity_after, ${notUpdated('#_before, #_after')}, changed_by, request_id, reason)
    SELECT pet_id, present, quantity, ${notUpdated('#, #')}, $5::text, $6::text, $7::text FROM judged WHERE holds
    RETURNING pet_id
  ), changed AS (
    UPDATE inventory_item AS item SET quantity = judged.quantity FROM judged WHERE item.pet_id = $3 AND judged.holds
    RETURNING ${AS_ASKED}
  )
  SELECT n, CASE WHEN NOT holds THEN 'precondition_failed'
                 WHEN EXISTS (SELECT FROM recorded) AND (SELECT as_asked FROM changed) THEN 'done' ELSE ${REFUSAL} END,
         present, ${notUpdated('#')} FROM judged`;

/**
 * Updates of different pets, without conditions and keys. Locks the pets that are free, and writes them with their history.
 *
 * Each pet is looked up and locked by its own id: PostgreSQL may plan a join or EXISTS as a scan of the whole table, and a row
 * that got another pet's id would be taken for that pet.
 */
export const PLAIN = `
  WITH settings AS MATERIALIZED (SELECT ${SET_FOR_TRANSACTION}
  ), asked AS (
    SELECT updates.* FROM settings
     CROSS JOIN unnest($3::bigint[], $4::int[], $5::text[], $6::text[], $7::text[])
                WITH ORDINALITY AS updates (pet_id, quantity, changed_by, request_id, reason, n) WHERE ${IN_TIME}
  ), judged AS MATERIALIZED (
    SELECT asked.*, item.quantity AS present, ${notUpdated('item.#')}, item.status IS NOT NULL AS holds
      FROM asked LEFT JOIN LATERAL (SELECT ${stateList()} FROM inventory_item AS item WHERE ${isOfPet('asked.pet_id')}
                                       FOR NO KEY UPDATE SKIP LOCKED) AS item ON true
  ), recorded AS (
    INSERT INTO stock_change (pet_id, quantity_before, quantity_after, ${notUpdated('#_before, #_after')}, changed_by, request_id, reason)
    SELECT pet_id, present, quantity, ${notUpdated('#, #')}, changed_by, request_id, reason FROM judged WHERE holds ORDER BY n
    RETURNING pet_id
  ), changed AS (
    UPDATE inventory_item AS item SET quantity = judged.quantity FROM judged WHERE item.pet_id = judged.pet_id AND judged.holds
    RETURNING ${AS_ASKED}
  )
  SELECT n, CASE WHEN holds AND ((SELECT count(*) FROM recorded), (SELECT count(*) FROM changed WHERE as_asked))
                             <> (SELECT count(*), count(*) FROM judged WHERE holds) THEN ${REFUSAL}
                 WHEN holds THEN 'done'${BUSY_OR_ABSENT}, present, ${notUpdated('#')} FROM judged ORDER BY n`;

/**
 * Any updates: docs/decisions/idempotency-keys.md tells of `known`. A pet that is there twice is locked once, by its last
 * update: a lock that comes free in between would break the chain of its history. Each key is looked up by itself, as the pets are.
 */
export const FULL = `
  WITH settings AS MATERIALIZED (SELECT ${SET_FOR_TRANSACTION}
  ), asked AS (
    SELECT updates.*, CASE WHEN idempotency_key IS NOT NULL THEN sha256(convert_to(if_match, 'UTF8')) END AS if_match_sha256
      FROM settings
     CROSS JOIN unnest($3::bigint[], $4::int[], $5::text[], $6::text[], $7::text[], $8::int[], $9::bool[], $10::text[], $11::text[])
                WITH ORDINALITY AS updates (pet_id, quantity, changed_by, request_id, reason, quantity_before, is_last, if_match,
                                            idempotency_key, n) WHERE ${IN_TIME}
  ), known AS MATERIALIZED (
    SELECT asked.n, change.quantity_after, ${notUpdated('change.#_after')}, pg_logical_emit_message(true, 'inventory', 'replay'),
           (change.pet_id, change.quantity_after, change.if_match_sha256)
             IS NOT DISTINCT FROM (asked.pet_id, asked.quantity, asked.if_match_sha256) AS is_same
      FROM asked, LATERAL (SELECT * FROM stock_change AS change
                            WHERE change.changed_by = asked.changed_by AND change.idempotency_key = asked.idempotency_key
                            LIMIT 1) AS change
     WHERE asked.idempotency_key IS NOT NULL
  ), locked AS MATERIALIZED (
    SELECT asked.pet_id, item.* FROM asked, LATERAL (SELECT ${stateList()} FROM inventory_item AS item
                                                      WHERE ${isOfPet('asked.pet_id')}
                                                        FOR NO KEY UPDATE SKIP LOCKED) AS item WHERE is_last
  ), judged AS MATERIALIZED (
    SELECT asked.*, item.quantity AS present, ${notUpdated('item.#')}, item.status IS NOT NULL
           AND ${matches('if_match')} AS holds
      FROM asked LEFT JOIN locked AS item USING (pet_id) WHERE n NOT IN (SELECT n FROM known)
  ), recorded AS (
    INSERT INTO stock_change (pet_id, quantity_before, quantity_after, ${notUpdated('#_before, #_after')}, changed_by, request_id, reason,
                              idempotency_key, if_match_sha256)
    SELECT pet_id, coalesce(quantity_before, present), quantity, ${notUpdated('#, #')}, changed_by, request_id, reason,
           idempotency_key, if_match_sha256
      FROM judged WHERE holds ORDER BY idempotency_key || changed_by, n
    ON CONFLICT (changed_by, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING RETURNING pet_id, idempotency_key
  ), changed AS (
    UPDATE inventory_item AS item SET quantity = judged.quantity FROM judged
     WHERE item.pet_id = judged.pet_id AND judged.holds AND judged.is_last AND item.pet_id IN (SELECT pet_id FROM recorded)
    RETURNING ${AS_ASKED}
  )
  SELECT n, CASE WHEN holds AND ((SELECT count(*) FROM changed WHERE as_asked),
                                 (SELECT count(*) FROM recorded WHERE idempotency_key IS NULL))
                             <> ((SELECT count(DISTINCT pet_id) FROM recorded),
                                 (SELECT count(*) FROM judged WHERE holds AND idempotency_key IS NULL)) THEN ${REFUSAL}
                 WHEN holds AND pet_id NOT IN (SELECT pet_id FROM recorded) THEN 'no_history_row'
                 WHEN holds THEN 'done'
                 WHEN present IS NOT NULL THEN 'precondition_failed'${BUSY_OR_ABSENT}, present, ${notUpdated('#')} FROM judged
  UNION ALL SELECT n, CASE WHEN is_same THEN 'replayed' ELSE 'key_reused' END, quantity_after, ${notUpdated('#_after')} FROM known
  ORDER BY n`;

const isPlain = ({ ifMatch, idempotencyKey }: QuantityUpdate) => ifMatch === null && idempotencyKey === null;

/**
 * docs/decisions/batched-updates.md says what the shorter texts save.
 *
 * @param lastMs by the database's clock, in milliseconds since 1970: read later than this it does nothing and has no rows
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
  if (pets.size === updates.length && updates.every(isPlain)) return { sql: PLAIN, values };
  const chained = chainUpdates(updates);
  values.push(
    arrayLiteral(chained.map(({ quantityBefore }) => quantityBefore)),
    arrayLiteral(chained.map(({ isLast }) => isLast)),
    column(({ ifMatch }) => ifMatch?.join(' ') ?? null),
    column(({ idempotencyKey }) => idempotencyKey),
  );
  return { sql: FULL, values };
}

/**
 * What to try first; undefined unless the updates are a lone one without a key. Without a row nothing has happened, and
 * {@link updateStatement} tells why.
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
  return { sql: LONE, values, mayBeEmpty: true };
}
