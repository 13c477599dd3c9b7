import { type Statement, arrayLiteral } from '../../database/statement-connection.js';
import { NOT_AS_ASKED } from '../../errors/error-text.js';
import type { QuantityUpdate } from '../inventory.contract.js';
import { KEPT, stateList } from '../stock-item.js';
import { type ChainedUpdate, chainUpdates } from './update-chain.js';

/**
 * What the statement says of an update. `busy`: someone else holds the pet's row. `unrecorded`: its history row was not written,
 * because someone else took the key a moment ago, or a trigger kept the row back.
 */
export type UpdatedRow = readonly [
  n: string,
  outcome: 'done' | 'replayed' | 'precondition_failed' | 'key_reused' | 'absent' | 'busy' | 'unrecorded',
  present: string,
  ...kept: (string | null)[],
];

interface Column {
  readonly name: string;
  readonly type: string;
  readonly of: (chained: ChainedUpdate) => string | number | bigint | boolean | null;
}

/** What the statement is told of every update. */
const PLAIN_COLUMNS: readonly Column[] = [
  { name: 'pet_id', type: 'bigint', of: ({ update }) => update.petId },
  { name: 'quantity', type: 'int', of: ({ update }) => update.quantity },
  { name: 'changed_by', type: 'text', of: ({ update }) => update.changedBy },
  { name: 'request_id', type: 'text', of: ({ update }) => update.requestId },
  { name: 'reason', type: 'text', of: ({ update }) => update.reason },
];
const ALL_COLUMNS: readonly Column[] = [
  ...PLAIN_COLUMNS,
  { name: 'quantity_before', type: 'int', of: ({ quantityBefore }) => quantityBefore },
  { name: 'is_last', type: 'bool', of: ({ isLast }) => isLast },
  { name: 'if_match', type: 'text', of: ({ update }) => update.ifMatch?.join(' ') ?? null },
  { name: 'idempotency_key', type: 'text', of: ({ update }) => update.idempotencyKey },
];

/** `plain`: no update has a condition or a key, and no pet is there twice. `keyed`: an update has a key. */
type Kind = 'plain' | 'full' | 'keyed';

const kept = (form: string) => stateList(form, KEPT);
const columnsOf = (kind: Kind) => (kind === 'plain' ? PLAIN_COLUMNS : ALL_COLUMNS);

const IF_MATCH_SHA256 = `sha256(convert_to(if_match, 'UTF8'))`;

/**
 * Whether the tables took what was asked: else a trigger of somebody else changed a row or kept one back. Only a row of the table
 * itself has a `tableoid`: PostgreSQL refuses the statement if a rule returns rows of another table in their place.
 */
const AS_ASKED = `item.tableoid IS NOT NULL AND item.pet_id = judged.pet_id AND item.quantity = judged.quantity
      AND ${stateList('item.# IS NOT DISTINCT FROM judged.#', KEPT).replaceAll(', ', ' AND ')}`;
/** Fails with SQLSTATE 22P02, as a value that a rule refuses. A constant would fail when PostgreSQL plans the statement. */
const REFUSAL = `('${NOT_AS_ASKED} ' || n)::int::text`;

/**
 * Locks the free rows, judges the preconditions, and writes the pets with a history row for each accepted update:
 * docs/decisions/batched-updates.md, and docs/decisions/idempotency-keys.md for `known`.
 *
 * Each pet is looked up and locked by its own id: PostgreSQL may plan a join or EXISTS as a scan of the whole table, and a row
 * that got another pet's id would be taken for that pet. A pet that is there twice is locked once: a lock that comes free in
 * between would break the chain of its history. `transaction_timeout` is new in PostgreSQL 17.
 */
function sqlOf(kind: Kind, isSingle: boolean): string {
  const columns = columnsOf(kind);
  const updates = isSingle
    ? `(SELECT ${columns.map(({ name, type }, at) => `$${at + 1}::${type} AS ${name}`).join(', ')}, 1 AS n) AS updates`
    : `unnest(${columns.map(({ type }, at) => `$${at + 1}::${type}[]`).join(', ')})
        WITH ORDINALITY AS updates (${columns.map(({ name }) => name).join(', ')}, n)`;
  const [lastMs, timeoutMs] = [`$${columns.length + 1}::float8`, `$${columns.length + 2}`];
  const lock = `LATERAL (SELECT ${stateList()} FROM inventory_item AS item WHERE item.pet_id = asked.pet_id
                  FOR NO KEY UPDATE SKIP LOCKED) AS item`;
  const ifFull = (sql: string) => (kind === 'plain' ? '' : sql);
  const ifKeyed = (sql: string) => (kind === 'keyed' ? sql : '');
  const written = '(SELECT count(*) FROM changed WHERE as_asked)';
  // Of one update without an aggregate, which would cost a tenth of the statement.
  const ofKind = {
    plain: `((SELECT as_asked FROM changed) AND (SELECT true FROM recorded)) IS TRUE`,
    full: `(${written}, (SELECT count(*) FROM recorded))
                                = (SELECT count(*) ${ifFull('FILTER (WHERE is_last)')}, count(*) FROM judged WHERE holds)`,
    keyed: `${written} = (SELECT count(DISTINCT pet_id) FROM recorded)`,
  };
  const allAsAsked = ofKind[kind === 'plain' && !isSingle ? 'full' : kind];
  return `
  WITH settings AS MATERIALIZED (
    SELECT set_config('inventory.recorded_in', pg_current_xact_id()::text, true),
           CASE current_setting('client_min_messages') WHEN 'error' THEN set_config('client_min_messages', 'warning', true) END,
           CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END,
           CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL
                THEN set_config('transaction_timeout', ${timeoutMs}, true) END
  ), asked AS (
    SELECT updates.* FROM settings CROSS JOIN ${updates} WHERE statement_timestamp() < to_timestamp(${lastMs} / 1000)
  ), ${ifKeyed(`known AS MATERIALIZED (
    SELECT n, quantity_after, ${kept('#_after')}, pg_logical_emit_message(true, 'inventory', 'replay'),
           (change.pet_id, quantity_after, if_match_sha256)
             IS NOT DISTINCT FROM (asked.pet_id, quantity, ${IF_MATCH_SHA256}) AS is_same
      FROM asked JOIN stock_change AS change USING (changed_by, idempotency_key) WHERE idempotency_key IS NOT NULL
  ), `)}${ifFull(`locked AS MATERIALIZED (
    SELECT asked.pet_id, ${stateList('item.#')} FROM asked, ${lock} WHERE is_last
  ), `)}judged AS MATERIALIZED (
    SELECT asked.*, item.quantity AS present, ${kept('item.#')}, item.status IS NOT NULL
           ${ifFull(`AND (if_match IS NULL OR item.status || '-' || item.quantity = ANY (string_to_array(if_match, ' ')))`)} AS holds
      FROM asked LEFT JOIN ${kind === 'plain' ? `${lock} ON true` : `locked AS item USING (pet_id)`}
           ${ifKeyed('WHERE n NOT IN (SELECT n FROM known)')}
  ), recorded AS (
    INSERT INTO stock_change (pet_id, quantity_before, quantity_after, ${kept('#_before, #_after')}, changed_by, request_id, reason
           ${ifKeyed(', idempotency_key, if_match_sha256')})
    SELECT pet_id, ${kind === 'plain' ? 'present' : 'coalesce(quantity_before, present)'}, quantity, ${kept('#, #')}, changed_by, request_id, reason
           ${ifKeyed(`, idempotency_key, CASE WHEN idempotency_key IS NOT NULL THEN ${IF_MATCH_SHA256} END`)}
      FROM judged WHERE holds ORDER BY ${ifKeyed('idempotency_key || changed_by, ')} n
    ${ifKeyed(`ON CONFLICT (changed_by, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING`)} RETURNING pet_id
  ), changed AS (
    UPDATE inventory_item AS item SET quantity = judged.quantity
      FROM judged WHERE item.pet_id = judged.pet_id AND holds ${ifFull('AND is_last')}
                    ${ifKeyed('AND item.pet_id IN (SELECT pet_id FROM recorded)')}
    RETURNING ${AS_ASKED} AS as_asked
  )
  SELECT n, CASE WHEN holds AND NOT (${allAsAsked}) THEN ${REFUSAL}
                 ${ifKeyed(`WHEN holds AND pet_id NOT IN (SELECT pet_id FROM recorded) THEN 'unrecorded'`)}
                 WHEN holds THEN 'done'
                 WHEN present IS NOT NULL THEN 'precondition_failed'
                 WHEN (SELECT true FROM inventory_item AS item WHERE item.pet_id = judged.pet_id) THEN 'busy'
                 ELSE 'absent' END, present, ${kept('#')} FROM judged
  ${ifKeyed(`UNION ALL SELECT n, CASE WHEN is_same THEN 'replayed' ELSE 'key_reused' END, quantity_after, ${kept('#_after')} FROM known`)}
  ORDER BY n`;
}

const SQL = {
  plain: { single: sqlOf('plain', true), several: sqlOf('plain', false) },
  full: { single: sqlOf('full', true), several: sqlOf('full', false) },
  keyed: { single: sqlOf('keyed', true), several: sqlOf('keyed', false) },
};

/** Each kind costs PostgreSQL less than the next one: docs/decisions/batched-updates.md has how much. */
function kindOf(updates: readonly QuantityUpdate[]): Kind {
  if (updates.some(({ idempotencyKey }) => idempotencyKey !== null)) return 'keyed';
  const hasConditions = updates.some(({ ifMatch }) => ifMatch !== null);
  return hasConditions || new Set(updates.map(({ petId }) => petId)).size < updates.length ? 'full' : 'plain';
}

/**
 * @param lastMs by the database's clock, in milliseconds since 1970: read later than this it does nothing and has no rows
 * @param timeoutMs how long its transaction may last before it is committed
 */
export function updateStatement(updates: readonly QuantityUpdate[], lastMs: number, timeoutMs: number): Statement {
  const kind = kindOf(updates);
  const isSingle = updates.length === 1;
  const chained = chainUpdates(updates);
  const values = columnsOf(kind).map(({ of }) => {
    const column = chained.map(of);
    if (!isSingle) return arrayLiteral(column);
    return column[0] === null ? null : String(column[0]);
  });
  return {
    sql: SQL[kind][isSingle ? 'single' : 'several'],
    values: [...values, String(lastMs), String(timeoutMs)],
  };
}
