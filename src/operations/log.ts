import { createRequire } from 'node:module';
import { setTimeout as pause } from 'node:timers/promises';
import { Injectable, type LoggerService } from '@nestjs/common';
import { type DestinationStream, type LogFn, type Logger, pino } from 'pino';
import { Settings } from '../settings.js';
import { describeError } from './error-text.js';
import { terminalOptions } from './log-terminal.js';

/** Many lines are written at once. While nobody reads standard output they wait in memory, up to `maxLength` bytes. */
const BUFFER = { minLength: 8_192, periodicFlush: 100, maxLength: 16 * 2 ** 20 };

/** A reader of standard output that has stopped reading must not keep the process from ending. */
const FLUSHED_WITHIN_MS = 1_000;

export type Level = 'debug' | 'info' | 'warn' | 'error';

/**
 * The log: one JSON object a line on standard output, or text for people when that is a terminal. Secrets never go into
 * it: an error under `err` is described without them, and no other member is taken from what a client sends.
 */
@Injectable()
export class Log implements LoggerService {
  /** What is still in it when the process exits is written by pino. */
  readonly #output = pino.destination({ dest: 1, sync: false, ...BUFFER });
  readonly #logger: Logger;
  readonly debug: LogFn;
  readonly info: LogFn;
  readonly warn: LogFn;
  readonly error: LogFn;
  /** What NestJS says of itself. */
  readonly log: LogFn;
  /** Lines that were lost because nobody read them. */
  dropped = 0;

  constructor({ LOG_LEVEL }: Settings) {
    this.#output.on('drop', () => this.dropped++);
    // At a broken pipe pino would end the log for good. A named one may get another reader; what waits for it is tried again.
    this.#output.removeAllListeners('error').on('error', () => undefined);
    this.#logger = pino(
      {
        level: LOG_LEVEL,
        base: null,
        timestamp: isoTime,
        formatters: { level: (level) => ({ level }) },
        serializers: { err: (error: unknown) => describeError(error) },
      },
      terminal() ?? this.#output,
    );
    const at = (level: Level) => this.#logger[level].bind(this.#logger);
    this.debug = this.log = at('debug');
    this.info = at('info');
    this.warn = at('warn');
    this.error = at('error');
  }

  /** Whether lines of this level are written; when not, nothing needs to be computed for them. */
  isEnabled(level: Level): boolean {
    return this.#logger.isLevelEnabled(level);
  }

  /** Resolves when all lines so far are written, at most after a second. */
  async flush(): Promise<void> {
    const written = new Promise((resolve) => this.#output.flush((error) => resolve(!error)));
    const late = pause(FLUSHED_WITHIN_MS, false, { ref: false });
    // Otherwise pino would write the rest as the process exits, and fail, or wait for its reader for ever.
    if (!(await Promise.race([written, late]))) this.#output.destroy();
  }
}

let millisecond = 0;
let timestamp = '';

/** As pino's own, kept for a millisecond: many lines share one, and writing a date takes a third of the time of a line. */
function isoTime(): string {
  const now = Date.now();
  if (now !== millisecond) {
    millisecond = now;
    timestamp = `,"time":"${new Date(now).toISOString()}"`;
  }
  return timestamp;
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
