import { createRequire } from 'node:module';
import { setTimeout as pause } from 'node:timers/promises';
import { Injectable, type LoggerService } from '@nestjs/common';
import { type DestinationStream, pino } from 'pino';
import { Settings } from '../settings.js';
import { describeFailure } from './failure.text.js';
import { terminalOptions } from './log-terminal.js';

/** Writing line by line would cost more than making the lines. */
const WRITTEN_FROM_BYTES = 8_192;
const WRITTEN_AFTER_MS = 100;

/** While standard output is not read the lines wait in memory, up to here. */
const MAX_WAITING_BYTES = 16 * 2 ** 20;

/** A reader of standard output that has stopped reading must not keep the process from ending. */
const FLUSHED_WITHIN_MS = 1_000;

export type Level = 'debug' | 'info' | 'warn' | 'error';
type Line = [message: string] | [fields: object, message: string];

/**
 * The log: one JSON object a line on standard output, or text for people when that is a terminal. Secrets never go into
 * it: an error under `err` is described without them, and no other member is taken from what a client sends.
 */
@Injectable()
export class Log implements LoggerService {
  /** Where JSON goes; written on exit, too. Nothing when the log is silent or for a terminal. */
  readonly #output: ReturnType<typeof pino.destination> | undefined;
  readonly #pino: pino.Logger;
  #dropped = 0;

  constructor({ LOG_LEVEL }: Settings) {
    const forPeople = LOG_LEVEL === 'silent' ? undefined : terminal();
    if (LOG_LEVEL !== 'silent' && !forPeople) {
      const limits = { minLength: WRITTEN_FROM_BYTES, periodicFlush: WRITTEN_AFTER_MS, maxLength: MAX_WAITING_BYTES };
      this.#output = pino.destination({ dest: 1, sync: false, ...limits });
      this.#output.on('drop', () => this.#dropped++);
    }
    this.#pino = pino(
      {
        level: LOG_LEVEL,
        base: null,
        timestamp: time,
        formatters: { level: (level) => ({ level }) },
        serializers: { err: (error: unknown) => describeFailure(error) },
      },
      forPeople ?? this.#output ?? { write: () => undefined },
    );
  }

  /** Whether lines of this level are written; when not, nothing needs to be computed for them. */
  takes(level: Level): boolean {
    return this.#pino.isLevelEnabled(level);
  }

  /** Lines that were lost because nobody read them. */
  get dropped(): number {
    return this.#dropped;
  }

  /**
   * A line of members that need no further care, as pino would write it. These are nearly all lines there are, and
   * `JSON.stringify` takes a third of pino's time for one.
   */
  write(level: Level, line: { readonly msg: string }): void {
    if (this.#output) this.#output.write(`{"level":"${level}"${time()},${JSON.stringify(line).slice(1)}\n`);
    else this.#pino[level](line);
  }

  debug(...line: Line): void {
    this.#pino.debug(...(line as [object, string]));
  }

  info(...line: Line): void {
    this.#pino.info(...(line as [object, string]));
  }

  warn(...line: Line): void {
    this.#pino.warn(...(line as [object, string]));
  }

  error(...line: Line): void {
    this.#pino.error(...(line as [object, string]));
  }

  /** What NestJS says of itself. */
  log(message: string): void {
    this.#pino.debug(message);
  }

  /** Resolves when all lines so far are written, at most after a second. */
  async flush(): Promise<void> {
    const written = new Promise<void>((resolve) => {
      if (this.#output) this.#output.flush(() => resolve());
      else resolve();
    });
    await Promise.race([written, pause(FLUSHED_WITHIN_MS, undefined, { ref: false })]);
  }
}

let millisecond = 0;
let text = '';

/** UTC. Many lines share a millisecond, and writing a date costs as much as the rest of the line. */
function time(): string {
  const now = Date.now();
  if (now !== millisecond) {
    millisecond = now;
    text = `,"time":"${new Date(now).toISOString()}"`;
  }
  return text;
}

/** pino-pretty, where standard output is a terminal and the package is there; production does not have it. */
function terminal(): DestinationStream | undefined {
  if (!process.stdout.isTTY) return undefined;
  try {
    const pretty = createRequire(import.meta.url)('pino-pretty') as typeof import('pino-pretty');
    return pretty(terminalOptions);
  } catch {
    return undefined;
  }
}
