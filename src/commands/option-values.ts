import { InvalidArgumentError } from 'commander';
import { isPetId } from '../inventory/item-limits.ts';
import { Failure, type Query } from '../lib/postgres/index.ts';
import { isSafeName, SAFE_NAME_RULE } from '../safe-text.ts';

const UNIT_MS: Readonly<Record<string, number>> = { s: 1e3, m: 60e3, h: 3_600e3, d: 86_400e3, w: 7 * 86_400e3 };
const LONGEST_MS = 10_000 * 86_400e3;

export const DURATION_FORM = '30s, 15m, 12h, 30d or 4w';
const dateForm = (year: number) => `or an ISO date such as ${year}-01-31 or ${year}-01-31T12:00:00Z`;
export const PAST_FORM = `an age such as ${DURATION_FORM}, ${dateForm(2026)}`;
export const FUTURE_FORM = `a duration such as ${DURATION_FORM}, ${dateForm(new Date().getFullYear() + 1)}`;

/** Makes a reader of an option's value. @param rule what the value must do */
export function reader<T>(rule: string, isValid: (text: string) => boolean, convert: (text: string) => T) {
  return (text: string): T => {
    if (!isValid(text)) throw new InvalidArgumentError(`It must ${rule}.`);
    return convert(text);
  };
}

export function lineReader(longest: number) {
  const pattern = new RegExp(`^[^\\p{Cc}]{1,${longest}}$`, 'u');
  return reader(`have 1 to ${longest} printable characters`, (text) => pattern.test(text), String);
}

/** What a request may carry into the history: its id, its reason. */
export const readSafeName = reader(`be ${SAFE_NAME_RULE}`, isSafeName, String);

/** The milliseconds of a value like `12h`, at most ten thousand days. */
export const readDuration = reader(`be ${DURATION_FORM}`, (text) => durationOf(text) <= LONGEST_MS, durationOf);

function durationOf(text: string): number {
  const [, count, unit = ''] = /^(\d+)([smhdw])$/.exec(text) ?? [];
  return Number(count) * (UNIT_MS[unit] ?? NaN);
}

/** Tells a time by the database's clock. @throws {Failure} when it lies on the wrong side of now */
export type When = (query: Query) => Promise<Date>;

export const AT_FORM = `the id of a change, ${PAST_FORM}`;
const readTimeAt = whenReader(AT_FORM, -1);
export const readAt = (text: string) => (isPetId(text) && !text.startsWith('-') ? BigInt(text) : readTimeAt(text));
export const readPast = whenReader(PAST_FORM, -1);
export const readFuture = whenReader(FUTURE_FORM, 1);

/**
 * Reads a duration from now, forward or back, or a date or time in ISO 8601. A date alone is midnight UTC; a time needs
 * its zone.
 */
function whenReader(form: string, direction: 1 | -1) {
  return (text: string): When => {
    const moment = momentOf(text);
    if (moment === undefined) throw new InvalidArgumentError(`It must be ${form}.`);
    return async (query) => {
      const clock = 'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::text AS ms';
      const [{ ms }] = (await query(clock)) as [{ ms: string }];
      const now = new Date(Number(ms));
      const time = typeof moment === 'number' ? new Date(Number(ms) + direction * moment) : moment;
      if (direction === 1 ? time > now : time <= now) return time;
      throw new Failure(
        `${time.toISOString()} lies in the ${direction === 1 ? 'past' : 'future'} by the database's clock, which says ${now.toISOString()}`,
      );
    };
  };
}

/** A date or time, or the milliseconds of a duration. Digits beyond the millisecond are cut. */
function momentOf(text: string): Date | number | undefined {
  if (/^\d+[a-z]$/.test(text)) return readDuration(text);
  const [, date] = /^(\d{4}-\d\d-\d\d)(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/.exec(text) ?? [];
  const dateTime = new Date(text);
  // PostgreSQL reads the years 1 to 9999. Date would take 31 February for 3 March.
  const isSound = !Number.isNaN(dateTime.getTime()) && /^(?!0000)\d{4}-/.test(dateTime.toISOString());
  return date && isSound && new Date(date).toISOString().startsWith(date) ? dateTime : undefined;
}
