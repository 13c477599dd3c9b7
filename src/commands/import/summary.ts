import type { Client } from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import { STATE } from '../../inventory/item.ts';
import { EXPORTED } from '../export.ts';
import { SHOWN_AT_MOST } from '../../safe-text.ts';
import { LINES } from '../output.ts';
import { type Outcome, OUTCOMES } from './plan.ts';
import { STATE_TAG, staleWords } from './refusals.ts';
import type { Unit } from './problems.ts';

/** Some pets of an outcome, a line each. */
export async function linesOf(client: Client, outcome: Outcome, unit: Unit): Promise<string[]> {
  const { rows } = await client.query<Record<string, string | null>>(
    // They are in the order of their ids.
    `SELECT *, ${STATE_TAG} AS tag FROM planned WHERE outcome = $1 LIMIT ${SHOWN_AT_MOST}`,
    [outcome],
  );
  return rows.map((row) => {
    const pet = `pet ${row['pet_id']}`;
    const at = `${pet} (${unit} ${row['place']})`;
    const state = (when: string) => STATE.flatMap(({ column }) => row[`${column}_${when}`] ?? []).join(' ');
    if (outcome === 'skipped') return `${at}: ${staleWords(row)}`;
    if (outcome === 'gone') return at;
    if (outcome !== 'changed') return `${pet}: ${state(outcome === 'added' ? 'after' : 'before')}`;
    const differing = STATE.filter(({ column }) => row[`${column}_before`] !== row[`${column}_after`]);
    return `${pet}: ${differing.map(({ column }) => `${row[`${column}_before`]} → ${row[`${column}_after`]}`).join(', ')}`;
  });
}

/** Outcomes that do not have both states: a kept pet is not written, and a gone one is not there. */
const TIMES: Readonly<Partial<Record<Outcome, readonly string[]>>> = { kept: ['Before'], gone: [] };

/** The counts and all pets, a line each, as JSON. PostgreSQL writes the pets. */
export async function* jsonOf(client: Client, counts: object, unit: Unit): AsyncGenerator<string | Buffer> {
  yield `${JSON.stringify(counts, null, 2).slice(0, -2)},\n  "pets": {`;
  for (const [at, outcome] of OUTCOMES.entries()) {
    const members = [
      'pet_id AS "petId"',
      ...(outcome === 'removed' || outcome === 'kept' ? [] : [`place AS "${unit}"`]),
      ...(outcome === 'skipped' ? [`exported_tag AS "${EXPORTED}"`] : []),
      ...STATE.flatMap(({ name, column }) =>
        (TIMES[outcome] ?? ['Before', 'After']).map((when) => `${column}_${when} AS "${name}${when}"`),
      ),
    ];
    yield `${at > 0 ? ',' : ''}\n    "${outcome}": [\n`;
    const pets = `SELECT ${members.join(', ')} FROM planned WHERE outcome = '${outcome}' ORDER BY pet_id`;
    const comma = `CASE row_number() OVER () WHEN 1 THEN ' ' ELSE ',' END`;
    const copy = `COPY (SELECT ${comma} || row_to_json(pet) FROM (${pets}) AS pet) TO STDOUT (${LINES})`;
    yield* client.query(copyTo(copy)) as AsyncIterable<Buffer>;
    yield '    ]';
  }
  yield '\n  }\n}\n';
}
