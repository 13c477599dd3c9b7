import fs from 'node:fs';
import { vi } from 'vitest';
import { PATIENCE_MS } from './patience.ts';
import { type LogLine, linesOf } from './service-process.ts';
import { atTestEnd } from './test-end.ts';

const STANDARD_OUTPUT = 1;

/**
 * Reads what services of this process write to standard output, which gets nothing until the test ends, or the file
 * whose hook calls this.
 */
export async function readLog() {
  const write = fs.write;
  const written: Buffer[] = [];
  fs.write = ((fd: number, text: string, ...rest: unknown[]) => {
    if (fd !== STANDARD_OUTPUT) return Reflect.apply(write, fs, [fd, text, ...rest]) as unknown;
    const bytes = Buffer.from(text);
    written.push(bytes);
    return setImmediate(rest.at(-1) as (error: null, length: number) => void, null, bytes.length);
  }) as typeof fs.write;
  await atTestEnd(() => (fs.write = write));
  const text = () => Buffer.concat(written).toString();
  const lines = () => linesOf(text());
  /** Waits for a line. */
  const line = (wanted: (line: LogLine) => boolean): Promise<LogLine> =>
    vi.waitUntil(() => lines().find(wanted), { timeout: PATIENCE_MS, interval: 10 });
  return { text, lines, line };
}

export type LogReader = Awaited<ReturnType<typeof readLog>>;
