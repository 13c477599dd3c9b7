import { exactIntegers } from '../http/responses.js';

/** JSON with every int64 as exact digits, as a JavaScript number would round it; with `indent` 0 on one line. */
export function printJson(value: unknown, indent = 2): void {
  console.log(JSON.stringify(value, exactIntegers, indent));
}

/** A plain table without lines, for people; programs ask for JSON. No text in it can end its line or turn it round. */
export function printTable(head: readonly string[], rows: readonly (readonly string[])[]): void {
  const table = [head, ...rows].map((row) => row.map(withoutControls));
  const widths = head.map((_, column) => table.reduce((width, row) => Math.max(width, row[column]?.length ?? 0), 0));
  for (const row of table) {
    const cells = row.map((cell, column) => cell.padEnd(widths[column] ?? 0));
    console.log(cells.join('  ').trimEnd());
  }
}

/** Text from outside, made harmless for terminals and short. JSON that is text already stays as it is. */
export function quote(text: string): string {
  const short = text.length > 40 ? `${text.slice(0, 40)}…` : text;
  return withoutControls(short.startsWith('"') ? short : JSON.stringify(short));
}

/** Line breaks of every kind, control and format characters, which could steer a terminal, replaced. */
export function withoutControls(text: string): string {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '\ufffd');
}
