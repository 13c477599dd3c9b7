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

/** The problems of a file: the first ones, the first of each further kind, and the count of all. */
export class Problems {
  private readonly shown: { readonly place: number; readonly text: string }[] = [];
  private readonly kinds = new Set<string>();
  private total = 0;

  /** @param count how many there are, this one and those that are not added */
  add({ kind, text }: Fault, place: number | string, count = 1): void {
    if (this.shown.length < SHOWN_AT_MOST || !this.kinds.has(kind)) this.shown.push({ place: Number(place), text });
    this.kinds.add(kind);
    this.total += count;
  }

  /** @throws Failure if there are problems */
  refuse(unit: Unit): void {
    if (this.total === 0) return;
    const shown = this.shown.toSorted((one, other) => one.place - other.place);
    const lines = shown.map(({ place, text }) => `${unit} ${place}: ${text}`);
    const advice = Object.entries(ADVICE).flatMap(([kind, text]) => (this.kinds.has(kind) ? text : []));
    const count = `problems in the file, all together: ${this.total}; nothing was written`;
    throw new Failure([...lines, count, ...advice].join('\n'));
  }
}
