import { Injectable, type LoggerService } from '@nestjs/common';
import { pino } from 'pino';
import { Environment } from '../environment.js';

/** The log: one JSON object a line on standard output. No key ever goes into it. */
@Injectable()
export class Log implements LoggerService {
  readonly #pino: pino.Logger;

  constructor(environment: Environment) {
    this.#pino = pino({ level: environment.LOG_LEVEL, base: null, timestamp: pino.stdTimeFunctions.isoTime });
  }

  info(...line: [string] | [object, string]): void {
    this.#pino.info(...(line as [object, string]));
  }

  log(message: string): void {
    this.#pino.debug(message);
  }

  warn(...line: [string] | [object, string]): void {
    this.#pino.warn(...(line as [object, string]));
  }

  error(...line: [string] | [object, string]): void {
    this.#pino.error(...(line as [object, string]));
  }
}
