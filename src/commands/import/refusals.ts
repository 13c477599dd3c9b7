import type { Client } from 'pg';
import { Failure } from '../../lib/postgres/index.ts';
import { KEPT_COLUMNS, itemTagOf } from '../../inventory/item.ts';
import { EXPORTED } from '../export-marks.ts';
import type { Counts, Rules } from './plan.ts';
import { type Fault, Problems, refusal, SHOWN_AT_MOST } from './problems.ts';
import { MADE, type StockFile } from './rows.ts';

type Row = Readonly<Record<string, string | null>>;

/** Adds the first rows of a statement in the order of their places, and the count of all. */
async function addRows(client: Client, problems: Problems, sql: string, faultOf: (row: Row) => Fault) {
  const text = `SELECT *, (count(*) OVER ())::integer AS total FROM (${sql}) AS problem ORDER BY place LIMIT ${SHOWN_AT_MOST}`;
  const { rows } = await client.query<Row & { place: string; total: number }>(text);
  const others = (rows[0]?.total ?? 0) - rows.length;
  for (const [at, row] of rows.entries()) problems.add(faultOf(row), row.place, at === 0 ? 1 + others : 1);
}

/** @throws Failure with the problems of the file, and with rows of one pet */
export async function refuseProblems(client: Client, { problems, unit }: StockFile): Promise<void> {
  // A sort finds them: a join would cost seconds with a million pets.
  const twice = `SELECT * FROM (SELECT place, lowest, min(place) OVER (PARTITION BY pet_id) AS first FROM incoming) AS pet WHERE place > first`;
  await addRows(client, problems, twice, ({ first, lowest }) => {
    return { kind: lowest === null ? 'twice' : 'digits', text: `petId is the same as in ${unit} ${first}` };
  });
  problems.refuse(unit);
}

/** What a new pet cannot do without. */
const NEVER_NULL = KEPT_COLUMNS.filter(({ isValid }) => !isValid(''));
/** Whether a pet to add lacks one. */
const IS_INCOMPLETE = NEVER_NULL.map(({ column }) => `${column}_after IS NULL`).join(' OR ');
const NEEDED = NEVER_NULL.map(({ name }) => name).join(' and ');

/** @throws Failure with the rows whose pets are not what the file takes them for; nothing was written */
export async function refusePlanned(client: Client, rules: Rules, file: StockFile, counts: Counts): Promise<void> {
  const { added = 0, stale = 0 } = counts;
  if (file.rows === 0 && rules.missing === 'remove') throw new Failure('the file has no pet; it would remove them all');
  const { rows: pets } = await client.query('SELECT FROM inventory_item LIMIT 1');
  const isEmpty = pets.length === 0;
  if (isEmpty && file.hasExported)
    throw refusal('the store has no pets, so the file was made from another one', 'store');
  if (!isEmpty) await refuseRounded(client, rules, file);
  const problems = new Problems();
  const add = (kind: string, condition: string, words: (row: Row) => string) => {
    const sql = `SELECT place, pet_id, made, ${STATE_TAG} AS tag FROM planned WHERE ${condition}`;
    return addRows(client, problems, sql, (row) => ({ kind, text: `pet ${row['pet_id']} ${words(row)}` }));
  };
  if (added > 0 && rules.new === 'refuse' && !isEmpty)
    await add('unknown', `outcome = 'added'`, () => 'is not in the store');
  else if (added > 0)
    await add('incomplete', `outcome = 'added' AND (${IS_INCOMPLETE})`, () => `is new and has no ${NEEDED}`);
  if (stale > 0) await add('stale', `outcome = 'stale'`, staleWords);
  problems.refuse(file.unit);
}

export const STATE_TAG = itemTagOf('planned', '_before');

export const staleWords = ({ made, tag }: Row) =>
  `${made === MADE.new ? `has an empty ${EXPORTED}, as a new pet` : `was ${made} when the file was made`}, and is ${tag ?? 'gone'} now`;

/** Refuses rows whose id may be the rounded id of a pet that the store has and the file lacks. */
async function refuseRounded(client: Client, rules: Rules, file: StockFile): Promise<void> {
  if (file.hasExactId || rules.new === 'add-as-written') return;
  const problems = new Problems();
  const pairs = `
    SELECT DISTINCT ON (place) place, file.pet_id, own.pet_id AS other
      FROM (SELECT * FROM incoming WHERE lowest IS NOT NULL OFFSET 0) AS file
     -- OFFSET 0 keeps this order of joins: PostgreSQL would compare all pets of the store with all rows.
     CROSS JOIN LATERAL (SELECT pet_id FROM inventory_item WHERE pet_id BETWEEN file.lowest AND file.highest OFFSET 0) AS own
     WHERE NOT EXISTS (SELECT FROM incoming other WHERE other.pet_id = own.pet_id)
     ORDER BY place, own.pet_id`;
  await addRows(client, problems, pairs, ({ pet_id, other }) => {
    const text = `petId ${pet_id} may be the rounded id of pet ${other}, which the store has and the file lacks`;
    return { kind: 'rounded', text };
  });
  problems.refuse(file.unit);
}
