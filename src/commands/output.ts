import { exactIntegers } from '../lib/http/json.ts';
import { excerpt, withoutControls } from '../safe-text.ts';

/** JSON with every int64 as exact digits; with `indent` 0 on one line. */
export function printJson(value: unknown, indent = 2): void {
  console.log(JSON.stringify(value, exactIntegers, indent));
}

/** For COPY of lines as they are: no JSON has these two characters. The text format would double each backslash. */
export const LINES = String.raw`FORMAT csv, QUOTE E'\x01', DELIMITER E'\x02'`;

/** A plain table without lines. No text in it can end its line or turn it round. */
export function printTable(head: readonly string[], rows: readonly (readonly string[])[]): void {
  const table = [head, ...rows].map((row) => row.map(withoutControls));
  const widths = head.map((_, column) => table.reduce((width, row) => Math.max(width, row[column]?.length ?? 0), 0));
  for (const row of table) {
    const cells = row.map((cell, column) => cell.padEnd(widths[column] ?? 0));
    console.log(cells.join('  ').trimEnd());
  }
}

/** To the second, in UTC. */
export const showDateTime = (dateTime: Date | null) => dateTime?.toISOString().replace(/\.\d+Z$/, 'Z') ?? '-';

/** Makes text from outside short, and harmless for terminals. Text in quotes gets no second ones. */
export function quote(text: string): string {
  const short = excerpt(text);
  return short.startsWith('"') ? short : JSON.stringify(short);
}
