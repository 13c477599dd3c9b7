import type { Client } from 'pg';
import { Failure } from '../../lib/postgres/index.ts';
import { EXPORTED } from '../export.ts';
import { SHOWN_AT_MOST } from '../../safe-text.ts';
import type { Counts, Rules } from './plan.ts';
import { type Fault, Problems, refusal } from './problems.ts';
import { EXPORTED_TAG, ROUNDED, type StockFile } from './rows.ts';

type Row = Readonly<Record<string, string | null>>;

/** Adds the first rows of a statement in the order of their places, and the count of all. */
async function addRows(client: Client, problems: Problems, sql: string, faultOf: (row: Row) => Fault) {
  const text = `SELECT *, (count(*) OVER ())::integer AS total FROM (${sql}) AS problem ORDER BY place LIMIT ${SHOWN_AT_MOST}`;
  const { rows } = await client.query<Row & { place: string; total: number }>(text);
  const others = (rows[0]?.total ?? 0) - rows.length;
  for (const [at, row] of rows.entries()) problems.add(faultOf(row), row.place, at === 0 ? 1 + others : 1);
}

/** SQL: whether an id has more than 15 digits. */
const IS_LONG = 'pet_id NOT BETWEEN -999999999999999 AND 999999999999999';

/** @throws Failure with the problems of the file, with rows of one pet, and with ids if all long ones may be rounded */
export async function refuseProblems(client: Client, rules: Rules, file: StockFile): Promise<void> {
  const { problems, unit, hasExported } = file;
  // A sort finds them: a join would cost seconds with a million pets.
  const twice = `SELECT * FROM (SELECT place, min(place) OVER (PARTITION BY pet_id) AS first FROM incoming) AS pet WHERE place > first`;
  await addRows(client, problems, twice, ({ first }) => {
    return { kind: 'twice', text: `petId is the same as in ${unit} ${first}` };
  });
  const rounded = `
    SELECT place, pet_id FROM incoming
     WHERE ${IS_LONG} AND NOT EXISTS (SELECT FROM incoming WHERE ${IS_LONG} AND pet_id::text !~ '${ROUNDED.source}')`;
  if (!hasExported && rules.new !== 'add-as-written')
    await addRows(client, problems, rounded, ({ pet_id }) => {
      return { kind: 'rounded', text: `petId ${pet_id} may be rounded by a spreadsheet` };
    });
  problems.refuse(unit);
}

/** @throws Failure with the rows whose pets are not what the file takes them for; nothing was written */
export async function refusePlanned(client: Client, rules: Rules, file: StockFile, counts: Counts): Promise<void> {
  const { added = 0, stale = 0 } = counts;
  if (file.rows === 0 && rules.missing === 'remove') throw new Failure('the file has no pet; it would remove them all');
  const { rows: pets } = await client.query('SELECT FROM inventory_item LIMIT 1');
  const isEmpty = pets.length === 0;
  if (isEmpty && file.hasExported)
    throw refusal('the store has no pets, so the file was made from another one', 'store');
  const problems = new Problems();
  const add = (kind: string, condition: string, words: (row: Row) => string) => {
    const sql = `SELECT place, pet_id, exported_tag, ${STATE_TAG} AS tag FROM planned WHERE ${condition}`;
    return addRows(client, problems, sql, (row) => ({ kind, text: `pet ${row['pet_id']} ${words(row)}` }));
  };
  if (added > 0 && rules.new === 'refuse' && !isEmpty)
    await add('unknown', `outcome = 'added'`, () => 'is not in the store');
  else if (added > 0)
    await add('incomplete', `outcome = 'added' AND status_after IS NULL`, () => 'is new and has no status');
  if (stale > 0) await add('stale', `outcome = 'stale'`, staleWords);
  problems.refuse(file.unit);
}

export const STATE_TAG = `planned.status_before || '-' || planned.quantity_before`;

export const staleWords = ({ exported_tag: exported, tag }: Row) =>
  `${exported === EXPORTED_TAG.new ? `has an empty ${EXPORTED}, as a new pet` : `was ${exported} when the file was made`}, and is ${tag ?? 'gone'} now`;
