import { describe, expect, it } from 'vitest';
import { AT_FORM, lineReader, readAt, readDuration, readFuture, readPast } from './option-values.ts';

describe('a duration', () => {
  it.each([
    ['15m', 900_000],
    ['4w', 2_419_200_000],
    ['0d', 0],
    ['10000d', 864_000_000_000],
  ])('%s is %d ms', (text, durationMs) => {
    expect(readDuration(text)).toBe(durationMs);
  });

  it.each(['', '5', 'd', '-1d', '1.5h', '1 d', '1y', '1D', '10001d', `${'9'.repeat(400)}s`, '1h30m'])(
    'is refused when written as %j',
    (text) => {
      expect(() => readDuration(text)).toThrow('It must be 30s, 15m, 12h, 30d or 4w.');
    },
  );
});

describe('a date or time', () => {
  const databaseTime = () => Promise.resolve([{ ms: String(Date.parse('2026-11-20T12:00:00Z')) }]);
  const read = (text: string, direction: number) => (direction === 1 ? readFuture : readPast)(text)(databaseTime);

  it.each([
    ['12h', 1, '2026-11-21T00:00:00.000Z'],
    ['2w', -1, '2026-11-06T12:00:00.000Z'],
    ['2027-01-31', 1, '2027-01-31T00:00:00.000Z'],
    ['2027-01-31T08:00Z', 1, '2027-01-31T08:00:00.000Z'],
    ['2027-01-31T08:00:01.5+02:00', 1, '2027-01-31T06:00:01.500Z'],
    ['2027-01-31T23:00-02:00', 1, '2027-02-01T01:00:00.000Z'],
    ['2027-01-31T08:00:01.999999999Z', 1, '2027-01-31T08:00:01.999Z'],
    ['2024-02-29', -1, '2024-02-29T00:00:00.000Z'],
    ['0001-01-01', -1, '0001-01-01T00:00:00.000Z'],
    ['9999-12-31T23:59:59.999Z', 1, '9999-12-31T23:59:59.999Z'],
  ] as const)('%s (%d) is %s', async (text, direction, expected) => {
    expect(await read(text, direction)).toEqual(new Date(expected));
  });

  it.each([
    ['0s', 1, 'past'],
    ['2026-11-20T12:00Z', 1, 'past'],
    ['1s', 1, undefined],
    ['2026-11-20T12:00:00.001Z', -1, 'future'],
    ['0s', -1, undefined],
  ] as const)('%s (%d) is refused when it lies in the %s', async (text, direction, period) => {
    const time = read(text, direction);
    if (period)
      await expect(time).rejects.toThrow(` lies in the ${period} by the database's clock, which says 2026-11-20T`);
    else expect(await time).toBeInstanceOf(Date);
  });

  it.each([
    ...['', '2027-02-29', '2027-1-1', '2027-01-31T08:00', '2027-01-31T25:00Z', 'Sun 2027-01-31', '1h30m'],
    // In a year that PostgreSQL does not read.
    ...['0000-01-01', '0000-01-01T00:00+01:00', '0001-01-01T00:00+01:00', '9999-12-31T23:00-02:00'],
  ])('is refused when written as %j', (text) => {
    expect(() => readPast(text)).toThrow(
      'It must be an age such as 30s, 15m, 12h, 30d or 4w, or an ISO date such as 2026-01-31 or 2026-01-31T12:00:00Z.',
    );
  });
});

it.each(['', '007', '1.5', '9223372036854775808', '2026-01-01T00:00:00.1234567890Z', '2026-01-01T00:00:00.Z', '1 d'])(
  'a moment is an id, an age, a date or a time, not %j',
  (text) => {
    expect(() => readAt(text)).toThrow(`It must be ${AT_FORM}.`);
    for (const moment of ['0', '4711']) expect(readAt(moment)).toBe(BigInt(moment));
  },
);

it('a line has 1 to as many characters as it may, of any script, and no control character', () => {
  const read = lineReader(5);
  for (const line of ['a', 'abcde', '☕☕☕☕😀']) expect(read(line)).toBe(line);
  for (const line of ['', 'abcdef', 'a\nb', 'a\u009bb'])
    expect(() => read(line)).toThrow('It must have 1 to 5 printable characters.');
});
