import { InvalidArgumentError } from 'commander';

const DAY_MS = 86_400_000;
const UNIT_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: DAY_MS, w: 7 * DAY_MS };

export const DURATION_FORM = '30s, 15m, 12h, 30d or 4w';
export const DATE_TIME_FORM = `a duration such as ${DURATION_FORM}, or an ISO date such as 2027-01-31 or 2027-01-31T12:00:00Z`;

/** The milliseconds of an option's value like `12h`, at most ten thousand days. */
export function readDuration(text: string): number {
  const [, count, unit = ''] = /^(\d{1,9})([smhdw])$/.exec(text) ?? [];
  const durationMs = Number(count) * (UNIT_MS[unit] ?? NaN);
  if (durationMs <= 10_000 * DAY_MS) return durationMs;
  throw new InvalidArgumentError(`It must be ${DURATION_FORM}.`);
}

/** A time up to now. */
export function readPast(text: string): Date {
  const dateTime = readDateTime(text, -1);
  if (dateTime > new Date()) throw new InvalidArgumentError('It must lie in the past.');
  return dateTime;
}

/** A time to come. */
export function readFuture(text: string): Date {
  const dateTime = readDateTime(text, 1);
  if (dateTime <= new Date()) throw new InvalidArgumentError('It must lie in the future.');
  return dateTime;
}

/** A duration from now, forward or back, or a date or time in ISO 8601. A date alone is midnight UTC; a time needs its zone. */
export function readDateTime(text: string, direction: 1 | -1, now = new Date()): Date {
  if (/^\d+[a-z]$/.test(text)) return new Date(now.getTime() + direction * readDuration(text));
  const [, date] = /^(\d{4}-\d\d-\d\d)(T\d\d:\d\d(:\d\d(\.\d{1,3})?)?(Z|[+-]\d\d:\d\d))?$/.exec(text) ?? [];
  const dateTime = new Date(text);
  if (date !== undefined && !Number.isNaN(dateTime.getTime())) {
    const year = dateTime.getUTCFullYear();
    if (year < 1 || year > 9999) throw new InvalidArgumentError('It must lie in the years 1 to 9999.');
    // Date would take 31 February for 3 March.
    if (new Date(date).toISOString().startsWith(date)) return dateTime;
  }
  throw new InvalidArgumentError(`It must be ${DATE_TIME_FORM}.`);
}

/** To the second, in UTC. */
export function showDateTime(dateTime: Date | null): string {
  return dateTime === null ? '-' : dateTime.toISOString().replace(/\.\d+Z$/, 'Z');
}
