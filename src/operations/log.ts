import { setTimeout as pause } from 'node:timers/promises';
import { Injectable, type LoggerService } from '@nestjs/common';
import { type LogFn, pino, stdTimeFunctions } from 'pino';
import sonicBoom from 'sonic-boom';
import { Settings } from '../settings.ts';
import { describeError } from './describe-error.ts';
import { terminalOptions } from './log-terminal.ts';

/** In bytes. While nobody reads standard output, up to `maxLength` wait in memory. */
const BUFFER = { minLength: 8_192, periodicFlush: 100, maxLength: 16 * 2 ** 20 };

/** For a terminal; production does not have the package. */
const pretty = process.stdout.isTTY ? await import('pino-pretty').catch(() => undefined) : undefined;

export type Level = 'debug' | 'info' | 'warn' | 'error';

/** Writes a JSON object for each line, or text to a terminal; secrets in errors are left out. */
@Injectable()
export class Log implements LoggerService {
  /** Pino's own destination ends for good at a broken pipe, and can keep the process from ending. */
  readonly #output = new sonicBoom.SonicBoom({ fd: 1, sync: false, ...BUFFER });
  readonly debug: LogFn;
  readonly info: LogFn;
  readonly warn: LogFn;
  readonly error: LogFn;
  /** NestJS calls it. */
  readonly log: LogFn;
  readonly isEnabled: (level: Level) => boolean;
  dropped = 0;

  constructor({ LOG_LEVEL }: Settings) {
    this.#output.on('drop', () => this.dropped++);
    // The lines are tried again: a pipe may get another reader, a disk may get room.
    this.#output.on('error', () => undefined);
    const logger = pino(
      {
        level: LOG_LEVEL,
        base: null,
        timestamp: stdTimeFunctions.isoTime,
        formatters: { level: (level) => ({ level }) },
        serializers: { err: (error: unknown) => describeError(error) },
      },
      pretty?.build(terminalOptions) ?? this.#output,
    );
    this.debug = this.log = logger.debug.bind(logger);
    this.info = logger.info.bind(logger);
    this.warn = logger.warn.bind(logger);
    this.error = logger.error.bind(logger);
    this.isEnabled = logger.isLevelEnabled.bind(logger);
  }

  /** Ends the log when all lines so far are written, or after a second. A later line throws. */
  async close(): Promise<void> {
    const flushed = () => new Promise((resolve) => this.#output.flush(resolve));
    // The first flush may leave a last part to the second.
    await Promise.race([flushed().then(flushed), pause(1_000)]);
    this.#output.destroy();
  }
}
