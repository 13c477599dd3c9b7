import type { Client } from 'pg';
import { Failure } from '../../lib/postgres/index.ts';
import { NOT_AS_REQUESTED } from '../../database-errors.ts';
import { SHOWN_AT_MOST } from '../../safe-text.ts';
import type { Counts } from './plan.ts';

/**
 * Writes what is planned, with a history row for each pet. Readers never wait; a writer waits only for a pet that
 * changes. Adds pets by id, so that lists find them on disk in that order.
 *
 * @throws Failure when a trigger changed a row or kept it back
 */
export async function writePlanned(client: Client, counts: Counts, changedBy: string, reason?: string): Promise<void> {
  const outcomes = WRITTEN.filter((outcome) => (counts[outcome] ?? 0) > 0);
  if (outcomes.length === 0) return;
  const author = [changedBy, reason];
  const { rows } = await client.query<{ pet_id: string; total: number }>(writeOf(outcomes), author);
  const [first] = rows;
  if (!first) return;
  const lines = rows.map(({ pet_id }) => `pet ${pet_id}: ${NOT_AS_REQUESTED}`);
  const count = `pets that a trigger concerns, all together: ${first.total}; nothing was written`;
  throw new Failure([...lines, count].join('\n'));
}

/** SQL that writes the pets of an outcome, and returns what the table took. */
const WRITES = {
  changed: `
    UPDATE inventory_item i SET quantity = planned.quantity_after, status = planned.status_after FROM planned
     WHERE planned.outcome = 'changed' AND i.pet_id = planned.pet_id
    RETURNING i.pet_id, i.quantity, i.status`,
  added: `
    INSERT INTO inventory_item (pet_id, quantity, status)
    SELECT pet_id, quantity_after, status_after FROM planned WHERE outcome = 'added'
    RETURNING pet_id, quantity, status`,
  removed: `
    DELETE FROM inventory_item i USING planned WHERE planned.outcome = 'removed' AND i.pet_id = planned.pet_id
    RETURNING i.pet_id, NULL::integer, NULL::pet_status`,
};
const WRITTEN = Object.keys(WRITES) as (keyof typeof WRITES)[];

/** Each outcome costs a reading of the plan, even if no pet has it. */
function writeOf(outcomes: readonly (keyof typeof WRITES)[]): string {
  const isWritten = `outcome IN ('${outcomes.join("', '")}')`;
  return `
  WITH ${outcomes.map((outcome) => `${outcome} (pet_id, quantity, status) AS (${WRITES[outcome]})`).join(', ')},
  recorded AS (
    INSERT INTO stock_change (pet_id, quantity_before, status_before, quantity_after, status_after, changed_at, changed_by, reason)
    SELECT pet_id, quantity_before, status_before, quantity_after, status_after, statement_timestamp(), $1, $2
      FROM planned WHERE ${isWritten}
    RETURNING pet_id, quantity_before, quantity_after, status_before, status_after),
  written AS (${outcomes.map((outcome) => `TABLE ${outcome}`).join(' UNION ALL ')})
  SELECT pet_id, (count(*) OVER ())::integer AS total
    FROM planned LEFT JOIN (SELECT true AS is_written, * FROM written) AS written USING (pet_id)
         LEFT JOIN recorded USING (pet_id)
   WHERE ${isWritten}
     -- Without a trigger that could have changed them, the rows are not compared.
     AND EXISTS (SELECT FROM pg_trigger WHERE tgenabled <> 'D' AND (tgrelid = 'inventory_item'::regclass AND tgtype & 3 = 3
                                                                   OR tgrelid = 'stock_change'::regclass AND tgtype & 7 = 7))
     AND (is_written IS NULL OR (quantity, status) IS DISTINCT FROM (planned.quantity_after, planned.status_after)
          OR (recorded.pet_id, recorded.quantity_before, recorded.quantity_after, recorded.status_before, recorded.status_after)
             IS DISTINCT FROM
             (planned.pet_id, planned.quantity_before, planned.quantity_after, planned.status_before, planned.status_after))
   ORDER BY pet_id LIMIT ${SHOWN_AT_MOST}`;
}
