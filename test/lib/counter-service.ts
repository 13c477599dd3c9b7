import { type ArgumentsHost, Catch, Controller, type ExceptionFilter, Get, Inject, Module, Put } from '@nestjs/common';
import { APP_FILTER, NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { IsInt, Max, Min } from 'class-validator';
import type { Response } from 'express';
import {
  type ErrorKind,
  HttpError,
  JsonBody,
  LIMITS,
  sendError,
  StrictExpressAdapter,
} from '../../src/lib/http/index.ts';
import {
  Batcher,
  errorReader,
  leastTimeToSend,
  NotApplied,
  OutcomeUnknown,
  retryUntilDeadline,
  StatementConnection,
} from '../../src/lib/postgres/index.ts';

export const COUNTER = 'CREATE TABLE counter (value bigint NOT NULL); INSERT INTO counter VALUES (9007199254740993)';

const DEADLINE_MS = 4_000;

/** Its own codes, beside those of the library. */
const CODES = {
  crashed: { status: 500, message: 'The counter failed.' },
  try_again: { status: 503, message: 'Nothing was written: try again.', retryAfterSeconds: 1 },
  outcome_unknown: { status: 503, message: 'The counter may or may not be set: read it.' },
} satisfies Record<string, ErrorKind>;

const errors = errorReader({
  functions: [],
  kinds: [[/^42P01/, 'not_applied', 'there is no table "counter": make it first', false]],
  withoutSecrets: (text) => text,
});

@Catch()
class CounterFilter implements ExceptionFilter {
  catch(thrown: unknown, host: ArgumentsHost): void {
    const fail = (code: keyof typeof CODES) => new HttpError(code, CODES[code], undefined, {}, thrown);
    const isUnknown = thrown instanceof OutcomeUnknown;
    const own = fail(thrown instanceof NotApplied ? 'try_again' : isUnknown ? 'outcome_unknown' : 'crashed');
    sendError(host.switchToHttp().getResponse<Response>(), thrown instanceof HttpError ? thrown : own);
  }
}

class CounterValue {
  @IsInt()
  @Min(0)
  @Max(Number.MAX_SAFE_INTEGER)
  value!: number;
}

/** Sets the counter. Calls that arrive during a round trip share the next one: the last of them counts. */
class Counter {
  readonly #connection: StatementConnection;
  readonly #batcher = new Batcher<number | null, bigint>((calls) => this.#run(calls), {
    maxCalls: 100,
    maxWaiting: 100,
    leastTimeLeftMs: leastTimeToSend(DEADLINE_MS),
    open: () => this.#connection.open(),
  });

  constructor(databaseUrl: string) {
    const session = { databaseUrl, program: 'counter', purpose: 'requests', deadlineMs: DEADLINE_MS };
    this.#connection = new StatementConnection(session, errors);
  }

  /** @param value null to read it */
  async call(value: number | null): Promise<bigint> {
    const deadline = performance.now() + DEADLINE_MS;
    const [again, failure] =
      value === null ? [errors.mayReadAgain, errors.readFailure] : [errors.mayWriteAgain, errors.writeFailure];
    return retryUntilDeadline(deadline, again, () => this.#batcher.submit(value, deadline)).catch((error: unknown) => {
      throw failure(error);
    });
  }

  close = () => this.#connection.close();

  async #run(calls: readonly (number | null)[]): Promise<bigint[]> {
    const last = calls.findLast((value) => value !== null) ?? null;
    const sql = last === null ? 'SELECT value FROM counter' : 'UPDATE counter SET value = $1 RETURNING value';
    const values = last === null ? [] : [String(last)];
    const [row] = await this.#connection.run<[string]>({ sql, values });
    return calls.map(() => BigInt(row?.[0] ?? ''));
  }
}

@Controller('counter')
class CounterController {
  constructor(@Inject(Counter) private readonly counter: Counter) {}

  @Get()
  async read() {
    return { value: await this.counter.call(null) };
  }

  @Put()
  async set(@JsonBody() { value }: CounterValue) {
    return { value: await this.counter.call(value) };
  }
}

@Module({ controllers: [CounterController], providers: [{ provide: APP_FILTER, useClass: CounterFilter }] })
class CounterModule {}

export async function startCounter(databaseUrl: string) {
  const counter = new Counter(databaseUrl);
  const adapter = new StrictExpressAdapter(LIMITS);
  const module = { module: CounterModule, providers: [{ provide: Counter, useValue: counter }] };
  const app = await NestFactory.create<NestExpressApplication>(module, adapter, { logger: false });
  await app.listen(0, '127.0.0.1');
  return { app, counter, port: (app.getHttpServer().address() as { port: number }).port };
}
