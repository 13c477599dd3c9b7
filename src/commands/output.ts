import Table from 'cli-table3';

/** A result, for whoever reads standard output: a person or the next program. */
export function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** Something to know that is no result. */
export function note(text: string): void {
  process.stderr.write(`${text}\n`);
}

/** JSON with every int64 as exact digits, as a JavaScript number would round it; with `indent` 0 on one line. */
export function printJson(value: unknown, indent = 2): void {
  print(
    JSON.stringify(
      value,
      (_key, member: unknown) => (typeof member === 'bigint' ? JSON.rawJSON(String(member)) : member),
      indent,
    ),
  );
}

/** A plain table without lines, for people; programs ask for JSON. */
export function printTable(head: readonly string[], rows: readonly (readonly string[])[]): void {
  const none = Object.fromEntries(
    ['top', 'top-mid', 'top-left', 'top-right', 'bottom', 'bottom-mid', 'bottom-left', 'bottom-right']
      .concat(['left', 'left-mid', 'mid', 'mid-mid', 'right', 'right-mid'])
      .map((part) => [part, '']),
  );
  const table = new Table({
    head: [...head],
    chars: { ...none, middle: '  ' },
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 0 },
  });
  table.push(...rows.map((row) => [...row]));
  print(table.toString().replace(/ +$/gm, ''));
}

/** A moment to the second, in UTC. */
export function showMoment(moment: Date | null): string {
  return moment === null ? '-' : moment.toISOString().replace(/\.\d+Z$/, 'Z');
}

declare global {
  interface JSON {
    /** In Node.js since 21, not yet in TypeScript's library. */
    rawJSON(text: string): unknown;
  }
}
