import type { Client } from 'pg';
import { from as copyFrom, to as copyTo } from 'pg-copy-streams';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { NOT_AS_ASKED } from '../database/database-failure.js';
import { Failure } from '../errors/error-text.js';
import { itemTagOf, MEMBERS, NOT_UPDATED, STATE, stateList } from '../inventory/stock-item.js';
import { CHANGED_AT, LINES } from './export.js';
import type { FileFacts } from './stock-rows.js';
import { EXPORTED, MADE } from './stock-values.js';

/** What became of a pet. `removed`, `kept`: not in the file. `skipped`: its row is edited. `gone`: its row is not. */
export const OUTCOMES = ['added', 'changed', 'removed', 'skipped', 'kept', 'gone'] as const;
export type Outcome = (typeof OUTCOMES)[number];
/** Counts of pets. */
export type Summary = Readonly<Record<Outcome | 'unchanged', number>>;

export interface Rules {
  /** A row whose pet is not in the store is refused, added, or added although it seems to be the rounded id of another pet. */
  readonly new: 'refuse' | 'add' | 'add-as-written';
  /** An edited row whose pet has changed since the export is refused, or left out. */
  readonly stale: 'refuse' | 'skip';
  readonly missing: 'keep' | 'remove';
}

/** How the problems name places of the file. */
export type Unit = 'line' | 'item';

const TOLD = 20;

/** Begins the transaction and sends a file's rows, in CSV, into a temporary table. Nothing of the stock is locked. @returns their count */
export async function loadRows(client: Client, csv: AsyncIterable<string>): Promise<number> {
  await client.query(`
    SET temp_buffers = '64MB';
    BEGIN ISOLATION LEVEL READ COMMITTED;
    SET LOCAL statement_timeout = 0; -- a file may come slowly
    SET LOCAL work_mem = '64MB';
    -- Where the platform has this check, it frees all locks soon after this process is killed.
    DO $$ BEGIN SET LOCAL client_connection_check_interval = '1s'; EXCEPTION WHEN invalid_parameter_value THEN NULL; END $$;
    CREATE TEMP TABLE incoming (place bigint, fault text COLLATE "C",
      ${MEMBERS.map(({ column, type }) => `${column} ${type}`).join(', ')}, made text COLLATE "C")
      ON COMMIT DROP`);
  const copy = client.query(copyFrom('COPY incoming FROM STDIN (FORMAT csv)'));
  await pipeline(csv, copy);
  await client.query(`SET LOCAL statement_timeout = '30min'; ANALYZE incoming (fault, pet_id)`);
  return copy.rowCount;
}

/**
 * The first problems, with at least one of each kind. A kind that every row has is told once. A sort finds the duplicates: a
 * join would cost seconds with a million pets.
 */
const findProblems = `
  WITH problem AS (
    SELECT place, fault, regexp_replace(fault, ', not .*|^petId "[^"]+"|(is|pet) -?[0-9]+', '', 'g') AS kind FROM incoming WHERE fault IS NOT NULL
    UNION ALL
    SELECT place, 'petId is the same as in ' || $1 || ' ' || first_place, 'same'
      FROM (SELECT place, min(place) OVER (PARTITION BY pet_id) AS first_place FROM incoming WHERE pet_id IS NOT NULL) AS pet
     WHERE place > first_place),
  counted AS (
    SELECT *, row_number() OVER (PARTITION BY kind ORDER BY place) AS n, count(*) OVER (PARTITION BY kind) AS alike,
           (count(*) OVER ())::integer AS total
      FROM problem),
  told AS (
    SELECT *, total > ${TOLD} AND alike = (SELECT count(*) FROM incoming WHERE fault IS NULL) AS is_everywhere FROM counted)
  SELECT $1 || ' ' || place || ': ' || fault
         || CASE WHEN is_everywhere THEN '; the same in every other ' || $1 ELSE '' END AS text, total
    FROM (SELECT * FROM told WHERE n = 1 OR NOT is_everywhere ORDER BY n > 1, place, fault LIMIT ${TOLD}) AS first
   ORDER BY place, fault`;

/** @throws Failure with the first problems of the file and the count of all */
export async function refuseProblems(client: Client, unit: Unit, advice: (told: string) => string): Promise<void> {
  const { rows } = await client.query<{ text: string; total: number }>(findProblems, [unit]);
  const [first] = rows;
  if (!first) return;
  const told = rows.map(({ text }) => text).join('\n');
  throw new Failure(`${told}\n${countOf(first.total)}${advice(told)}`);
}

const countOf = (total: number) => `problems in the file, all together: ${total}; nothing was written`;

/** What a pet keeps where the file leaves it out. */
const NEVER_NULL = new Set(NOT_UPDATED.filter(({ holds }) => !holds('')));
const AFTER = STATE.map((member) =>
  NEVER_NULL.has(member) ? `coalesce(file.${member.column}, i.${member.column})` : `file.${member.column}`,
);
const DIFFERS = `((${stateList('i.#')}) IS DISTINCT FROM (${AFTER.join()}))`;

/** Imports take turns. */
export async function awaitTurn(client: Client): Promise<void> {
  await client.query(`
    SET LOCAL lock_timeout = '1min';
    SELECT pg_advisory_xact_lock(hashtextextended('inventory import', 0));
    SET LOCAL lock_timeout = '3s';
    SELECT set_config('inventory.recorded_in', pg_current_xact_id()::text, true)`);
}

/**
 * Decides in a temporary table what becomes of each pet that changes. With `locks`, it locks each of these rows before it reads
 * the state, so that no other writer changes the row before the transaction ends.
 *
 * @throws Failure with the rows that the rules refuse; nothing was written
 */
export async function planMerge(
  client: Client,
  rules: Rules,
  file: FileFacts & { readonly rows: number },
  unit: Unit,
  locks: boolean,
): Promise<Summary & { tellsTime: boolean }> {
  const locking = (lock: string) => (locks ? `FOR ${lock} OF i` : '');
  if (file.hasExported) await client.query(`UPDATE incoming SET made = '${MADE.new}' WHERE made IS NULL`);
  await client.query(`
    CREATE TEMP TABLE planned ON COMMIT DROP AS
    SELECT file.place, i.pet_id, ${stateList('i.# AS #_before')}, ${AFTER.map((sql, at) => `${sql} AS ${STATE[at]?.column}_after`).join()},
           CASE WHEN made <> ${itemTagOf('i')} THEN made END AS made,
           CASE WHEN made = '${MADE.new}' THEN 'present'
                WHEN made IS NULL OR made = ${itemTagOf('i')} THEN 'changed' ELSE 'stale' END AS outcome,
           NULL::bigint AS alike, NULL::text AS way
      FROM inventory_item i JOIN incoming file USING (pet_id)
     WHERE made IS DISTINCT FROM '${MADE.unedited}' AND (made IS NOT NULL OR ${DIFFERS})
     ORDER BY i.pet_id ${locking('NO KEY UPDATE')};
    -- A statement of its own: it sees what went while the one before waited for locks.
    INSERT INTO planned (place, pet_id, ${stateList('#_after')}, made, outcome)
    SELECT place, pet_id, ${stateList()}, made,
           CASE WHEN made = '${MADE.unedited}' THEN 'gone' WHEN made IS NULL OR made = '${MADE.new}' THEN 'added' ELSE 'stale' END
      FROM incoming file
     WHERE NOT EXISTS (SELECT FROM inventory_item i WHERE i.pet_id = file.pet_id) ORDER BY pet_id`);
  const tellsTime = rules.missing === 'remove' && (await planRemoval(client, file, locking('UPDATE')));
  const counts = await countPlanned(client);
  // The statements that join the plan with the stock need the statistics.
  if (counts['changed'] || counts['removed'] || counts['kept']) await client.query('ANALYZE planned (pet_id, outcome)');
  if (file.hasExported) await refuseMissed(client, counts);
  await refusePlanned(client, rules, file, unit, counts);
  if (rules.stale === 'skip' && counts['stale'])
    await client.query(`UPDATE planned SET outcome = 'skipped' WHERE outcome = 'stale'`);
  const { added = 0, changed = 0, removed = 0, stale: skipped = 0, kept = 0, gone = 0 } = counts;
  const unchanged = file.rows - added - changed - skipped - gone;
  return { added, changed, unchanged, removed, skipped, kept, gone, tellsTime };
}

/** @returns whether the file tells when it was made; then what came or changed later is kept */
async function planRemoval(client: Client, { newest }: FileFacts, locking: string): Promise<boolean> {
  await client.query(`
    INSERT INTO planned (pet_id, ${stateList('#_before')}, outcome)
    SELECT i.pet_id, ${stateList('i.#')}, 'removed' FROM inventory_item i
     WHERE NOT EXISTS (SELECT FROM incoming file WHERE file.pet_id = i.pet_id) ORDER BY i.pet_id ${locking}`);
  if (!newest) return false;
  const { rows } = await client.query(`SELECT FROM stock_change WHERE id = $1 AND ${CHANGED_AT} = $2`, [
    newest.id,
    newest.at,
  ]);
  if (rows.length === 0) return false;
  await client.query(
    `UPDATE planned SET outcome = 'kept'
      WHERE outcome = 'removed' AND $1 < (SELECT max(id) FROM stock_change AS change WHERE change.pet_id = planned.pet_id)`,
    [newest.id],
  );
  return true;
}

/** Whether a pet to add lacks a member that is never null. */
const IS_INCOMPLETE = [...NEVER_NULL].map(({ column }) => `${column}_after IS NULL`).join(' OR ');

type Counts = Readonly<Record<string, number>>;

async function countPlanned(client: Client): Promise<Counts> {
  const { rows } = await client.query<{ outcome: string; count: number; incomplete: number }>(`
    SELECT outcome, count(*)::integer AS count, (count(*) FILTER (WHERE ${IS_INCOMPLETE}))::integer AS incomplete
      FROM planned GROUP BY outcome`);
  const incomplete = rows.find(({ outcome }) => outcome === 'added')?.incomplete ?? 0;
  return { incomplete, ...Object.fromEntries(rows.map(({ outcome, count }) => [outcome, count])) };
}

/**
 * While the import waits for the lock of a pet, its holder may remove the pet and add it again. The first statement then misses
 * the old row, and the second sees the new one.
 *
 * @throws Failure when this happened to the pet of an edited row
 */
async function refuseMissed(client: Client, { changed = 0, stale = 0, present = 0, added = 0 }: Counts): Promise<void> {
  const { rows } = await client.query<{ edited: number }>(
    `SELECT count(*)::integer AS edited FROM incoming WHERE made <> '${MADE.unedited}'`,
  );
  if (rows[0]?.edited !== changed + stale + present + added)
    throw new Failure('another transaction was in the way; nothing was written, try again');
}

/** @throws Failure with the rows whose pets are not what the file takes them for */
async function refusePlanned(
  client: Client,
  rules: Rules,
  { hasExported, rows: inFile }: FileFacts & { readonly rows: number },
  unit: Unit,
  counts: Counts,
): Promise<void> {
  const { added = 0, present = 0, stale = 0, incomplete = 0 } = counts;
  if (inFile === 0 && rules.missing === 'remove') throw new Failure('the file has no pet; it would remove them all');
  const { rows: pets } = await client.query('SELECT FROM inventory_item LIMIT 1');
  const isEmpty = pets.length === 0;
  if (isEmpty && hasExported)
    throw new Failure(
      `the store has no pets, so the file was made from another one; remove the column "${EXPORTED}" to add them`,
    );
  if (isEmpty && added > 0 && incomplete === inFile)
    throw new Failure(`the store has no pets, and a new pet needs ${namesOf(NEVER_NULL)}; add that column to the file`);
  const rounded = added > 0 && !isEmpty && rules.new !== 'add-as-written' ? await findRounded(client, unit) : 0;
  const unknown = rules.new === 'refuse' && !isEmpty ? added - rounded : 0;
  const lacking = isEmpty || rules.new !== 'refuse' ? incomplete : 0;
  const problems: readonly (readonly [count: number, advice: (count: number) => string])[] = [
    [rounded, () => 'If rounded ids are right as they are, repeat the import with "--new add-as-written"'],
    [
      unknown,
      (count) =>
        `${petsAre(count)} not in the store: correct the ids, or repeat the import with "--new add" to add new pets`,
    ],
    [lacking, (count) => `${petsAre(count)} new and without ${namesOf(NEVER_NULL)}: add it to these rows`],
    [
      present,
      (count) =>
        `${petsAre(count)} in the store, but the rows have no "${EXPORTED}", as of new pets: export again, and edit that file`,
    ],
    [
      rules.stale === 'refuse' ? stale : 0,
      (count) =>
        `${petsAre(count)} no longer as the file was made from: export again and edit that file, or repeat the import with "--stale skip" to write the others`,
    ],
  ];
  const total = problems.reduce((sum, [count]) => sum + count, 0);
  if (total === 0) return;
  const outcomes = [
    ...(rounded > 0 ? ['rounded'] : []),
    ...(unknown > 0 ? ['added'] : lacking > 0 ? ['incomplete'] : []),
    'present',
    ...(rules.stale === 'refuse' ? ['stale'] : []),
  ];
  const told = await problemLines(client, outcomes, unit);
  const advice = problems.flatMap(([count, words]) => (count > 0 ? [words(count)] : []));
  throw new Failure([...told, countOf(total), ...advice].join('\n'));
}

const petsAre = (count: number) => (count === 1 ? '1 pet is' : `${count} pets are`);
const namesOf = (members: Iterable<{ readonly name: string }>) => Array.from(members, ({ name }) => name).join(' and ');

const STATE_TAG = itemTagOf('planned', '_before');
const STATE_ASKED = `(${stateList('#_before')}) IS NOT DISTINCT FROM (${stateList('coalesce(#_after, #_before)')})`;

interface PlannedRow {
  readonly place: string;
  readonly pet_id: string;
  readonly outcome: string;
  readonly made: string | null;
  readonly alike: string | null;
  readonly way: string | null;
  readonly tag: string | null;
  readonly is_as_asked: boolean;
  readonly is_incomplete: boolean;
}

/** The first rows of these outcomes, with at least one of each. */
async function problemLines(client: Client, outcomes: readonly string[], unit: Unit): Promise<string[]> {
  const { rows } = await client.query<PlannedRow>(
    `WITH counted AS (
       SELECT *, ${STATE_TAG} AS tag, ${STATE_ASKED} AS is_as_asked, row_number() OVER (PARTITION BY outcome ORDER BY place) AS n
         FROM planned
        WHERE outcome = ANY ($1) OR (outcome = 'added' AND 'incomplete' = ANY ($1) AND (${IS_INCOMPLETE})))
     SELECT * FROM (SELECT * FROM counted ORDER BY n > 1, place LIMIT ${TOLD}) AS first ORDER BY place`,
    [outcomes],
  );
  return rows.map((row) => wordsOf(row, unit, outcomes.includes('incomplete')));
}

function wordsOf(
  { place, pet_id, outcome, made, alike, way, tag, is_as_asked }: PlannedRow,
  unit: Unit,
  lacks: boolean,
): string {
  const again = is_as_asked ? '; was this file imported before?' : '';
  if (outcome === 'rounded')
    return `${unit} ${place}: pet ${pet_id} is not in the store, but ${alike} is, and the file lacks it: ${way}`;
  if (outcome === 'present')
    return `${unit} ${place}: pet ${pet_id} is in the store, but its ${EXPORTED} is empty, as of a new pet${again}`;
  if (outcome === 'stale') return `pet ${pet_id} (${unit} ${place}): ${staleWords(made, tag)}${again}`;
  return `${unit} ${place}: pet ${pet_id} is ${lacks ? `new and has no ${namesOf(NEVER_NULL)}` : 'not in the store'}`;
}

const staleWords = (made: string | null, tag: string | null) =>
  `the file was made from ${made}, ${tag === null ? 'and the pet is gone' : `the stock is ${tag}`}`;

/** What programs do to a petId (keep some digits, or make it a double), and what to do about it. */
const WAYS = {
  digits: 'spreadsheets keep 15 digits: format the column as text',
  double: 'JSON.parse and jq 1.6 round: use a program that keeps 64-bit integers',
  other: 'the program that wrote the file rounds: use one that keeps 64-bit integers',
};

/**
 * Marks pets to add whose id may be the rounded id of a pet that the store has and the file lacks. It looks only at ids that
 * rounding can give, so it reads each pet of the store a few times at most.
 */
async function findRounded(client: Client, unit: Unit): Promise<number> {
  const cut = (digits: number) => `id IN (round(own, ${digits} - own_size), trunc(own, ${digits} - own_size))`;
  // The largest petIds round to 2^63, which is none.
  const doubles = (rounded: string, own: string) => `(${rounded} = ${own}::float8::text::numeric
    OR CASE WHEN ${own} < 9223372036854775296 THEN ${rounded} = ${own}::float8::bigint END)`;
  const guesses: Readonly<Record<string, string>> = { digits: cut(15), double: doubles('id', 'of_store.pet_id') };
  const order = unit === 'item' ? ['double', 'digits'] : ['digits', 'double'];
  const way = `CASE ${order.map((each) => `WHEN ${guesses[each]} THEN '${each}'`).join(' ')} WHEN ${cut(16)} OR ${cut(17)} THEN 'other' END`;
  await client.query('SET LOCAL extra_float_digits = 1'); // then float8::text has all digits that a double needs
  const { rowCount } = await client.query(`
    WITH possible AS (
      SELECT place, pet_id, pet_id::numeric AS id, length(abs(pet_id::numeric)::text) AS size FROM planned
       WHERE outcome = 'added' AND pet_id NOT BETWEEN -999999999999999 AND 999999999999999),
    near AS (
      SELECT *, 10::numeric ^ (size - digits) AS width FROM possible, unnest(ARRAY[15, 16, 17]) AS digits
       WHERE size > digits AND mod(id, 10::numeric ^ (size - digits)) = 0
      UNION ALL
      SELECT *, 0, trunc(abs(id) / 2::numeric ^ 52) + 1 FROM possible
       WHERE abs(id) > 2::numeric ^ 53 AND ${doubles('pet_id', 'pet_id')}),
    pair AS MATERIALIZED (
      SELECT place, of_store.pet_id, ${way} AS way FROM near
       CROSS JOIN LATERAL (
         SELECT i.pet_id, i.pet_id::numeric AS own, length(abs(i.pet_id::numeric)::text) AS own_size FROM inventory_item i
          WHERE i.pet_id BETWEEN greatest(id - width, -2::numeric ^ 63)::bigint AND least(id + width, 2::numeric ^ 63 - 1)::bigint
         ) AS of_store),
    found AS (
      SELECT DISTINCT ON (place) * FROM pair
       WHERE way IS NOT NULL AND NOT EXISTS (SELECT FROM incoming WHERE incoming.pet_id = pair.pet_id)
       ORDER BY place, array_position(ARRAY['${order.join("','")}', 'other'], way), pet_id)
    UPDATE planned SET outcome = 'rounded', alike = found.pet_id,
           way = CASE found.way WHEN 'digits' THEN '${WAYS.digits}' WHEN 'double' THEN '${WAYS.double}' ELSE '${WAYS.other}' END
      FROM found WHERE planned.place = found.place AND planned.outcome = 'added'`);
  return rowCount ?? 0;
}

/** What the history says of an import. */
interface Author {
  readonly changedBy: string;
  readonly reason: string | undefined;
}

/**
 * Writes what is planned, with a history row for each pet. Readers never wait; a writer waits only for a pet that changes. Adds
 * pets by id, so that lists find them on disk in that order.
 *
 * @throws Failure when a trigger changed a row or kept it back
 */
export async function writePlanned(client: Client, summary: Summary, author: Author, unit: Unit): Promise<void> {
  const outcomes = WRITTEN.filter((outcome) => summary[outcome] > 0);
  if (outcomes.length === 0) return;
  const { rows } = await client.query<{ place: string | null; pet_id: string; total: number }>(writeOf(outcomes), [
    author.changedBy,
    author.reason,
  ]);
  const [first] = rows;
  if (!first) return;
  const told = rows.map(
    ({ place, pet_id }) => `${place === null ? '' : `${unit} ${place}: `}pet ${pet_id}: ${NOT_AS_ASKED}`,
  );
  throw new Failure(
    `${told.join('\n')}\npets that a trigger concerns, all together: ${first.total}; nothing was written`,
  );
}

/** SQL that writes the pets of an outcome, and returns what the table took. */
const WRITES = {
  changed: `
    UPDATE inventory_item i SET ${stateList('# = planned.#_after')} FROM planned
     WHERE planned.outcome = 'changed' AND i.pet_id = planned.pet_id
    RETURNING i.pet_id, ${stateList('i.#')}`,
  added: `
    INSERT INTO inventory_item (pet_id, ${stateList()})
    SELECT pet_id, ${stateList('#_after')} FROM planned WHERE outcome = 'added'
    RETURNING pet_id, ${stateList()}`,
  removed: `
    DELETE FROM inventory_item i USING planned WHERE planned.outcome = 'removed' AND i.pet_id = planned.pet_id
    RETURNING i.pet_id, ${STATE.map(({ type }) => `NULL::${type}`).join()}`,
};
const WRITTEN = Object.keys(WRITES) as (keyof typeof WRITES)[];

const historyOf = (row: string) => `${row}.pet_id, ${stateList(`${row}.#_before, ${row}.#_after`)}`;

/** Each outcome costs a reading of the plan, even if no pet has it. */
function writeOf(outcomes: readonly (keyof typeof WRITES)[]): string {
  const isWritten = `outcome IN ('${outcomes.join("', '")}')`;
  return `
  WITH ${outcomes.map((outcome) => `${outcome} (pet_id, ${stateList()}) AS (${WRITES[outcome]})`).join(', ')},
  recorded AS (
    INSERT INTO stock_change (pet_id, ${stateList('#_before')}, ${stateList('#_after')}, changed_at, changed_by, reason)
    SELECT pet_id, ${stateList('#_before')}, ${stateList('#_after')}, statement_timestamp(), $1, $2
      FROM planned WHERE ${isWritten}
    RETURNING pet_id, ${stateList('#_before, #_after')}),
  written AS (${outcomes.map((outcome) => `TABLE ${outcome}`).join(' UNION ALL ')})
  SELECT place, pet_id, (count(*) OVER ())::integer AS total
    FROM planned LEFT JOIN (SELECT true AS is_written, * FROM written) AS written USING (pet_id)
         LEFT JOIN recorded USING (pet_id)
   WHERE ${isWritten}
     -- Without a trigger that could have changed them, the rows are not compared.
     AND EXISTS (SELECT FROM pg_trigger WHERE tgenabled <> 'D' AND (tgrelid = 'inventory_item'::regclass AND tgtype & 3 = 3
                                                                   OR tgrelid = 'stock_change'::regclass AND tgtype & 7 = 7))
     AND (is_written IS NULL OR (${stateList()}) IS DISTINCT FROM (${stateList('planned.#_after')})
          OR (${historyOf('recorded')}) IS DISTINCT FROM (${historyOf('planned')}))
   ORDER BY place, pet_id LIMIT ${TOLD}`;
}

/** Some pets of an outcome, in words. */
export async function tellPlanned(client: Client, outcome: Outcome, unit: Unit): Promise<string[]> {
  const { rows } = await client.query<Record<string, string | number | null>>(
    // They are in the order of their ids.
    `SELECT *, ${STATE_TAG} AS tag FROM planned WHERE outcome = $1 LIMIT ${TOLD}`,
    [outcome],
  );
  return rows.map((row) => {
    const pet = `pet ${row['pet_id']}`;
    const at = `${pet} (${unit} ${row['place']})`;
    const state = (when: string) => STATE.map(({ column }) => row[`${column}_${when}`]).join(' ');
    if (outcome === 'skipped') return `${at}: ${staleWords(String(row['made']), row['tag'] as string | null)}`;
    if (outcome === 'gone') return at;
    if (outcome !== 'changed') return `${pet}: ${state(outcome === 'added' ? 'after' : 'before')}`;
    const differing = STATE.filter(({ column }) => row[`${column}_before`] !== row[`${column}_after`]);
    return `${pet}: ${differing.map(({ column }) => `${row[`${column}_before`]} → ${row[`${column}_after`]}`).join(', ')}`;
  });
}

/** Outcomes that do not have both states: a kept pet is not written, and a gone one is not there. */
const TIMES: Readonly<Partial<Record<Outcome, readonly string[]>>> = { kept: ['before'], gone: [] };

/** All pets of an outcome as members of a JSON array, a line each. PostgreSQL writes them. */
export function streamPlanned(client: Client, outcome: Outcome, unit: Unit): Readable {
  const members = [
    'pet_id AS "petId"',
    ...(outcome === 'removed' || outcome === 'kept' ? [] : [`place AS "${unit}"`]),
    ...(outcome === 'skipped' ? [`made AS "${EXPORTED}"`] : []),
    ...STATE.flatMap(({ name, column }) =>
      (TIMES[outcome] ?? ['before', 'after']).map(
        (when) => `${column}_${when} AS "${name}${when === 'before' ? 'Before' : 'After'}"`,
      ),
    ),
  ];
  return client.query(
    copyTo(`COPY (
      SELECT CASE row_number() OVER () WHEN 1 THEN '      ' ELSE '     ,' END || row_to_json(pet)::text
        FROM (SELECT ${members.join(', ')} FROM planned WHERE outcome = '${outcome}' ORDER BY pet_id) AS pet
      ) TO STDOUT (${LINES})`),
  );
}
