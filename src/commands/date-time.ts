import { InvalidArgumentError } from 'commander';

const UNIT_MS: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

export const DURATION_FORM = '30s, 15m, 12h, 30d or 4w';
export const DATE_TIME_FORM = `a duration such as ${DURATION_FORM}, or an ISO date such as 2027-01-31 or 2027-01-31T12:00:00Z`;

/** Milliseconds of a text like `12h`; undefined when it is none or more than ten thousand days. */
export function parseDuration(text: string): number | undefined {
  const [, count, unit] = /^(\d{1,9})([smhdw])$/.exec(text) ?? [];
  const durationMs = Number(count) * (UNIT_MS[unit ?? ''] ?? NaN);
  return durationMs <= 10_000 * 86_400_000 ? durationMs : undefined;
}

/**
 * A time given as a distance from now or as an ISO 8601 date. A date alone is midnight UTC; a time needs its zone.
 *
 * @param direction 1 when a duration reaches into the future, -1 when into the past
 */
export function parseDateTime(text: string, direction: 1 | -1, now = new Date()): Date | undefined {
  const durationMs = parseDuration(text);
  if (durationMs !== undefined) return new Date(now.getTime() + direction * durationMs);
  const [, date] = /^(\d{4}-\d\d-\d\d)(T\d\d:\d\d(:\d\d(\.\d{1,3})?)?(Z|[+-]\d\d:\d\d))?$/.exec(text) ?? [];
  if (date === undefined) return undefined;
  // Date would take 31 February for 3 March.
  const midnight = new Date(date);
  if (Number.isNaN(midnight.getTime()) || !midnight.toISOString().startsWith(date)) return undefined;
  const dateTime = new Date(text);
  return Number.isNaN(dateTime.getTime()) ? undefined : dateTime;
}

/** For an option, as the two below. */
export function readDuration(text: string): number {
  const durationMs = parseDuration(text);
  if (durationMs === undefined) throw new InvalidArgumentError(`It must be ${DURATION_FORM}.`);
  return durationMs;
}

export function readPast(text: string): Date {
  const dateTime = readDateTime(text, -1);
  if (dateTime > new Date()) throw new InvalidArgumentError('It must lie in the past.');
  return dateTime;
}

export function readFuture(text: string): Date {
  const dateTime = readDateTime(text, 1);
  if (dateTime <= new Date()) throw new InvalidArgumentError('It must lie in the future.');
  return dateTime;
}

function readDateTime(text: string, direction: 1 | -1): Date {
  const dateTime = parseDateTime(text, direction);
  if (!dateTime) throw new InvalidArgumentError(`It must be ${DATE_TIME_FORM}.`);
  return dateTime;
}

/** To the second, in UTC. */
export function showDateTime(dateTime: Date | null): string {
  return dateTime === null ? '-' : dateTime.toISOString().replace(/\.\d+Z$/, 'Z');
}
