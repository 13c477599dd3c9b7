import 'reflect-metadata';
import { readFileSync } from 'node:fs';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type ArgumentsHost, Catch, Controller, type ExceptionFilter, Get, Module, Put } from '@nestjs/common';
import { APP_FILTER, NestFactory } from '@nestjs/core';
import { IsInt, Max, Min } from 'class-validator';
import type { Response } from 'express';
import { expect, it, onTestFinished } from 'vitest';
import { HttpError, JsonBody, LIMITS, sendError, StrictExpressAdapter } from '../../src/lib/http/index.ts';
import { arrayLiteral, Batcher, errorReader, StatementConnection } from '../../src/lib/postgres/index.ts';
import { createDatabase } from '../support/database.ts';
import { ask } from '../support/http-client.ts';

/** The READMEs of the libraries show the code between the `// README` lines of this file. */
it.each(['http', 'postgres'])('the README of lib/%s has the example that a test below runs', (library) => {
  const read = (path: string) => readFileSync(new URL(path, import.meta.url), 'utf8');
  const withoutIndent = (text: string) => text.replaceAll(/^ +/gm, '');
  const [, example = ''] = /^```ts\n(.+?)```$/ms.exec(read(`../../src/lib/${library}/README.md`)) ?? [];
  const tested = read('examples.e2e-spec.ts').split(/^ *\/\/ README\n/m);
  expect(tested.map(withoutIndent)).toContain(withoutIndent(example));
});

it('the example of lib/postgres reads what is asked for together in one statement', async () => {
  const { url: databaseUrl } = await createDatabase({ migrated: false });
  // README
  const errors = errorReader({ functions: [], kinds: [], withoutSecrets: (text) => text });
  const session = { databaseUrl, program: 'example', purpose: 'squares', deadlineMs: 2_500 };
  const connection = new StatementConnection(session, errors);
  const sql = 'SELECT n * n FROM unnest($1::int[]) WITH ORDINALITY AS requested (n, place) ORDER BY place';
  const squares = new Batcher<number, string>(
    async (numbers) => {
      const rows = await connection.run<[string]>({ sql, values: [arrayLiteral(numbers)] });
      return rows.map(([square]) => square);
    },
    { maxCalls: 100, maxWaiting: 1_000, open: () => connection.open() },
  );
  const deadline = performance.now() + 2_500;
  const both = await Promise.all([squares.submit(3, deadline), squares.submit(4, deadline)]); // one statement
  // README
  onTestFinished(() => connection.close());
  expect(both).toEqual(['9', '16']);
});

// README
class Size {
  @IsInt()
  @Min(0)
  @Max(Number.MAX_SAFE_INTEGER)
  size!: number;
}

@Controller('box')
class BoxController {
  private size = 0n;

  @Get()
  read() {
    if (this.size === 0n) throw new HttpError('empty', { status: 404, message: 'The box is empty.' });
    return { size: this.size };
  }

  @Put()
  set(@JsonBody() { size }: Size) {
    this.size = BigInt(size);
    return { size: this.size };
  }
}

@Catch()
class BoxFilter implements ExceptionFilter {
  catch(thrown: unknown, host: ArgumentsHost) {
    const broken = new HttpError('broken', { status: 500, message: 'The box is broken.' });
    sendError(host.switchToHttp().getResponse<Response>(), thrown instanceof HttpError ? thrown : broken);
  }
}

@Module({ controllers: [BoxController], providers: [{ provide: APP_FILTER, useClass: BoxFilter }] })
class BoxModule {}
// README

it('the example of lib/http takes a strict body, writes every digit, and answers anything else with an Error', async () => {
  const app = await NestFactory.create(BoxModule, new StrictExpressAdapter(LIMITS), { logger: false });
  await app.listen(0, '127.0.0.1');
  onTestFinished(() => app.close());
  const { port } = (app.getHttpServer() as Server).address() as AddressInfo;
  const get = async (target: string) => (await ask(port, { target })).text;
  const put = async (body: string) =>
    (await ask(port, { method: 'PUT', target: '/box', headers: { 'Content-Type': 'application/json' }, body })).text;
  const error = (status: number, code: string, message: string) => JSON.stringify({ code, message, status });
  const invalid = (message: string) => error(400, 'validation_failed', message);
  expect(await get('/box')).toBe(error(404, 'empty', 'The box is empty.'));
  expect(await put('{"size": 9007199254740991}')).toBe('{"size":9007199254740991}');
  const NOT_JSON = 'The body is not JSON. A shell may have removed its double quotes: send the JSON from a file.';
  expect(await put('five')).toBe(error(400, 'bad_request', NOT_JSON));
  expect(await put('{"size": 1, "size": 2}')).toBe(error(400, 'bad_request', 'size is there more than once.'));
  expect(await put('{}')).toBe(invalid('size must be an integer number, but is missing.'));
  expect(await put('{"size": "5"}')).toBe(invalid('size must be an integer number, but is a text.'));
  expect(await put('{"size": -1}')).toBe(invalid('size must not be less than 0, but is smaller.'));
  // A JavaScript number would be 9007199254740992.
  const tooLarge = 'size must not be greater than 9007199254740991, but is larger.';
  expect(await put('{"size": 9007199254740993}')).toBe(invalid(tooLarge));
  expect(await get('/box')).toBe('{"size":9007199254740991}');
  expect(await get('/boxes')).toBe(error(404, 'not_found', 'There is nothing at this path.'));
});
