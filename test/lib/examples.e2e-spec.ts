import 'reflect-metadata';
import { readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { Controller, Get, Module, Put } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { IsInt, Min } from 'class-validator';
import { expect, it, onTestFinished } from 'vitest';
import { exactIntegers, HttpError, JsonBody, LIMITS, StrictExpressAdapter } from '../../src/lib/http/index.ts';
import { arrayLiteral, Batcher, errorReader, StatementConnection } from '../../src/lib/postgres/index.ts';
import { createDatabase } from '../support/database.ts';
import { ask } from '../support/http-client.ts';

/** What stands between two lines `// README` of this file stands in the README, too. */
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
  const both = await Promise.all([squares.call(3, deadline), squares.call(4, deadline)]); // one statement
  // README
  onTestFinished(() => connection.close());
  expect(both).toEqual(['9', '16']);
});

// README
class Size {
  @IsInt()
  @Min(0)
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

@Module({ controllers: [BoxController] })
class BoxModule {}
// README

it('the example of lib/http takes a strict body, writes every digit, and refuses what is no JSON', async () => {
  const options = { bodyParser: false, logger: false } as const;
  const app = await NestFactory.create<NestExpressApplication>(BoxModule, new StrictExpressAdapter(LIMITS), options);
  app.set('json replacer', exactIntegers);
  await app.listen(0, '127.0.0.1');
  onTestFinished(() => app.close());
  const { port } = app.getHttpServer().address() as AddressInfo;
  const put = (body: string) =>
    ask(port, { method: 'PUT', target: '/box', headers: { 'Content-Type': 'application/json' }, body });
  expect((await put('{"size": 9007199254740991}')).text).toBe('{"size":9007199254740991}');
  expect((await ask(port, { target: '/box' })).text).toBe('{"size":9007199254740991}');
  expect((await ask(port, { target: '/boxes' })).status).toBe(404);
});
