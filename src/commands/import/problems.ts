import { Failure } from '../../errors/error-text.js';
import { MEMBERS } from '../../inventory/stock-item.js';
import { END_MARK } from '../export-marks.js';

/** How problems name places of the file. */
export type Unit = 'line' | 'item';

/** How many pets, or problems, are named. */
export const SHOWN_PROBLEMS = 20;

export const HEADER_RULE = `the header must be ${MEMBERS.map(({ name }) => name).join()}, in any order`;

/** For a file that cannot be read at all. No part of it is told: it may be anything. */
export const notStock = (what: string) =>
  new Failure(`the file has no stock that an import can read: ${what}. Save it as CSV UTF-8; ${HEADER_RULE}`);

/** What to do about problems whose own lines do not say it, by their kind. */
const ADVICE: Readonly<Record<string, string>> = {
  cut: `If the file is whole: in a spreadsheet, write ${END_MARK} into the first cell below the last row, and save the file again`,
  rounded: 'If rounded ids are right as they are, repeat the import with "--new add-as-written"',
  unknown: 'Correct the ids, or repeat the import with "--new add" to add new pets',
  stale:
    'Was this file imported before? If not, export again and edit that file, or repeat the import with "--stale skip" to write the others',
};

interface Problem {
  readonly place: number;
  readonly text: string;
}

/** The problems of a file: the first ones of each kind, and the count of all. */
export class Problems {
  private readonly firsts = new Map<string, Problem[]>();
  private total = 0;

  /** @param count how many there are, this one and those that are not added */
  add(kind: string, place: number | string, text: string, count = 1): void {
    const firsts = this.firsts.get(kind) ?? [];
    if (firsts.length < SHOWN_PROBLEMS) firsts.push({ place: Number(place), text });
    this.firsts.set(kind, firsts);
    this.total += count;
  }

  /** @throws Failure with the first problems, at least one of each kind, if there are any */
  refuse(unit: Unit): void {
    if (this.total === 0) return;
    const byPlace = (one: Problem, other: Problem) => one.place - other.place;
    const kinds = [...this.firsts.values()];
    const others = kinds.flatMap((firsts) => firsts.slice(1)).sort(byPlace);
    const told = [...kinds.flatMap((firsts) => firsts.slice(0, 1)), ...others].slice(0, SHOWN_PROBLEMS).sort(byPlace);
    const lines = told.map(({ place, text }) => `${unit} ${place}: ${text}`);
    const advice = [...this.firsts.keys()].flatMap((kind) => ADVICE[kind] ?? []);
    const count = `problems in the file, all together: ${this.total}; nothing was written`;
    throw new Failure([...lines, count, ...advice].join('\n'));
  }
}
