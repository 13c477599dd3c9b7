import { expect, it, vi } from 'vitest';
import { printJson, printTable, quote, showDateTime } from './output.ts';

/** What `print` writes to standard output. */
function printedBy(print: () => void): string {
  const log = vi.spyOn(console, 'log').mockReturnValue();
  print();
  const text = log.mock.calls.map(([line]) => `${line}\n`).join('');
  log.mockRestore();
  return text;
}

it('prints the columns of a table below each other, without spaces at the end of a line', () => {
  const rows = [
    ['1', 'till', '-'],
    ['1234', 'a\nb', ''],
  ];
  expect(printedBy(() => printTable(['id', 'by name', 'last used'], rows))).toBe(
    ['id    by name  last used', '1     till     -', '1234  a\ufffdb', ''].join('\n'),
  );
});

it('prints an int64 in JSON with all its digits, indented or on one line', () => {
  const value = { petId: 9_223_372_036_854_775_807n };
  expect(printedBy(() => printJson(value))).toBe('{\n  "petId": 9223372036854775807\n}\n');
  expect(printedBy(() => printJson(value, 0))).toBe('{"petId":9223372036854775807}\n');
});

it('shows a time to the second, in UTC', () => {
  expect(showDateTime(new Date('2026-11-20T12:00:01.987+02:00'))).toBe('2026-11-20T10:00:01Z');
  expect(showDateTime(null)).toBe('-');
});

it.each([
  ['sold', '"sold"'],
  ['"sold"', '"sold"'],
  ['a"b', String.raw`"a\"b"`],
  ['x'.repeat(40), `"${'x'.repeat(40)}"`],
  ['x'.repeat(41), `"${'x'.repeat(40)}…"`],
  ['\u001b[2J\u009b', '"\ufffd[2J\ufffd"'],
  ['\u2028\u2029', '"\ufffd\ufffd"'],
  ['"\u001b[2J\u009b"', '"\ufffd[2J\ufffd"'],
])('quotes %j as %s', (text, quoted) => {
  expect(quote(text)).toBe(quoted);
});
