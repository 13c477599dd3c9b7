import { Failure } from '../../lib/postgres/index.ts';
import { MEMBERS } from '../../inventory/item.ts';
import { SHOWN_AT_MOST } from '../../safe-text.ts';
import { END_MARK, EXPORTED } from '../export.ts';

/** How problems name places of the file. */
export type Unit = 'line' | 'item';

export const HEADER_RULE = `the header must be ${MEMBERS.map(({ name }) => name).join()}, in any order`;

/**
 * All that an import advises the operator to do, by the kind of refusal or problem.
 * `test/commands/import-advice.e2e-spec.ts` follows each sentence. A problem of another kind states a rule.
 */
export const ADVICE = {
  format: `Save it as CSV UTF-8 (*.csv); ${HEADER_RULE}`,
  long: 'JSON in lines can have any length: use "inventory export --format ndjson"',
  broken: 'Export again',
  busy: 'Try again',
  commit: '"inventory history" tells whether it happened',
  mark: `Export again with "--end-mark"; or, if no pet is missing, end the file with "${END_MARK}" and a line break: then all pets that the file lacks are removed, also those that came later`,
  store: `To fill the store, import a file of "inventory export" without "--editable"`,
  cut: `If the file is whole, write ${END_MARK} into the first cell below the last row, and save the file again`,
  after: 'Leave one end mark, below all other rows, and save the file again',
  digits: 'Spreadsheets keep 15 digits: write the id as text, or edit a file of "inventory export --editable"',
  rounded: 'Export with "--editable" and edit that file; or, if the ids are right, import with "--new add-as-written"',
  unknown: 'Correct the ids, or repeat the import with "--new add" to add new pets',
  incomplete: 'Add what is missing to each row of the file',
  exported: `Export again and edit that file, but not its "${EXPORTED}"; for a new pet, leave that empty`,
  stale: `Export again and edit that file, or repeat the import with "--stale skip" to write the others. If this file was imported before, the stock has its edits`,
} as const;

/** A refusal of the whole file in one line: what is wrong, then what to do. */
export const refusal = (what: string, kind: keyof typeof ADVICE) => new Failure(`${what}. ${ADVICE[kind]}`);

/** For a file that cannot be read at all. No part of it is shown: it may be anything. */
export const notStock = (what: string) => refusal(`the file has no stock that an import can read: ${what}`, 'format');

export interface Fault {
  readonly kind: string;
  readonly text: string;
}
interface Problem extends Fault {
  readonly place: number;
}

/** The problems of a file: the first ones of each kind, and the count of all. */
export class Problems {
  private readonly firsts = new Map<string, Problem[]>();
  private total = 0;

  /** @param count how many there are, this one and those that are not added */
  add(fault: Fault, place: number | string, count = 1): void {
    const firsts = this.firsts.get(fault.kind) ?? [];
    if (firsts.length < SHOWN_AT_MOST) firsts.push({ ...fault, place: Number(place) });
    this.firsts.set(fault.kind, firsts);
    this.total += count;
  }

  /** @throws Failure with the first problems, at least one of each kind, if there are any */
  refuse(unit: Unit): void {
    if (this.total === 0) return;
    const byPlace = (one: Problem, other: Problem) => one.place - other.place;
    const kinds = [...this.firsts.values()];
    const others = kinds.flatMap((firsts) => firsts.slice(1)).sort(byPlace);
    const shown = [...kinds.flatMap((firsts) => firsts.slice(0, 1)), ...others].slice(0, SHOWN_AT_MOST).sort(byPlace);
    const lines = shown.map(({ place, text }) => `${unit} ${place}: ${text}`);
    const advice = Object.entries(ADVICE).flatMap(([kind, text]) => (this.firsts.has(kind) ? text : []));
    const count = `problems in the file, all together: ${this.total}; nothing was written`;
    throw new Failure([...lines, count, ...advice].join('\n'));
  }
}
