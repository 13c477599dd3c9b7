const UNIT_MS: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

export const DURATION_FORM = '30s, 15m, 12h, 30d or 4w';
export const MOMENT_FORM = `a duration such as ${DURATION_FORM}, or an ISO date such as 2027-01-31 or 2027-01-31T12:00:00Z`;

/** Milliseconds of a text like `12h`; undefined when it is none or more than ten thousand days. */
export function parseDuration(text: string): number | undefined {
  const [, count, unit] = /^(\d{1,9})([smhdw])$/.exec(text) ?? [];
  const durationMs = Number(count) * (UNIT_MS[unit ?? ''] ?? NaN);
  return durationMs <= 10_000 * 86_400_000 ? durationMs : undefined;
}

/**
 * A moment given as a distance from now or as an ISO 8601 date. A date alone is midnight UTC; a time needs its zone.
 *
 * @param direction 1 when a duration reaches into the future, -1 when into the past
 */
export function parseMoment(text: string, direction: 1 | -1, now = new Date()): Date | undefined {
  const durationMs = parseDuration(text);
  if (durationMs !== undefined) return new Date(now.getTime() + direction * durationMs);
  const [, date] = /^(\d{4}-\d\d-\d\d)(T\d\d:\d\d(:\d\d(\.\d{1,3})?)?(Z|[+-]\d\d:\d\d))?$/.exec(text) ?? [];
  if (date === undefined) return undefined;
  // Date would take 31 February for 3 March.
  const midnight = new Date(date);
  if (Number.isNaN(midnight.getTime()) || !midnight.toISOString().startsWith(date)) return undefined;
  const moment = new Date(text);
  return Number.isNaN(moment.getTime()) ? undefined : moment;
}
