import { Controller, Get, HttpException, Module, Res } from '@nestjs/common';
import type { NextFunction, Request, Response } from 'express';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AppModule } from '../../src/app.module.ts';
import { Public } from '../../src/keys/auth.guard.ts';
import { refusal, refused, whole } from '../support/answers.ts';
import { ask } from '../support/http-client.ts';
import { type TestService, startService } from '../support/service.ts';

const SECRET = 'SELECT * FROM api_key /srv/app/secret.ts:1 psk_0000';

const LIKE_AN_API_KEY = `psk_${'0'.repeat(46)}`;
/** A random UUID. */
const NEW_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

/** The value that the next request throws. */
let thrown: unknown;

@Controller('faulty')
class FaultyController {
  @Public()
  @Get('rejects')
  async rejects(): Promise<never> {
    await Promise.resolve();
    throw thrown;
  }

  @Public()
  @Get('begins')
  begins(@Res() response: Response): void {
    response.writeHead(200, { 'Content-Length': 1_000 }).write('begun');
    throw new Error(SECRET);
  }

  @Public()
  @Get('answers')
  answers(): unknown {
    const circle: { self?: unknown } = {};
    circle.self = circle; // JSON.stringify throws
    return circle;
  }
}

@Module({ controllers: [FaultyController] })
class FaultyModule {}

let service: TestService;
const imports = Reflect.getMetadata('imports', AppModule) as unknown[];
beforeAll(async () => {
  imports.push(FaultyModule);
  service = await startService({
    prepare: (app) => {
      app.use('/faulty/middleware', (_request: Request, _response: Response, next: NextFunction) => {
        next(thrown);
      });
    },
  });
});
afterAll(() => void imports.pop());

const get = async (how: string) => whole(await ask(service.port, { target: `/faulty/${how}` }));

describe.each(['rejects', 'middleware'])('a failure of a handler or a middleware (%s)', (how) => {
  it.each<[string, unknown]>([
    ['an Error', new Error(SECRET)],
    ['a symbol', Symbol(SECRET)],
    ['a status of 200', Object.assign(new Error(SECRET), { status: 200, statusCode: 200 })],
    ['an HttpException of 503', new HttpException(SECRET, 503)],
  ])('is answered with 500 and none of its text: %s', async (_, failure) => {
    thrown = failure;
    expect(await get(how)).toEqual(refused.failed);
  });

  it('keeps the status but not the text of a refusal by the framework', async () => {
    thrown = new HttpException(SECRET, 413);
    expect(await get(how)).toEqual(refusal('payload_too_large', 'The request was refused.'));
  });
});

// For Express, a middleware that throws one of these has not failed.
it.each([undefined, null])('a handler that throws %s is answered with 500', async (nothing) => {
  thrown = nothing;
  expect(await get('rejects')).toEqual(refused.failed);
});

describe('a response', () => {
  const idFor = async (id: string) => {
    const headers = { 'X-Request-Id': id };
    return (await ask(service.port, { target: '/health/live', headers })).headers['x-request-id'];
  };

  it.each(['a', '_-09azAZ', 'x'.repeat(64)])('repeats the X-Request-Id of the request: "%s"', async (id) => {
    expect(await idFor(id)).toBe(id);
  });

  it.each(['', 'x'.repeat(65), 'a.b', 'a b', '"a"', LIKE_AN_API_KEY])(
    'has a new X-Request-Id each time if that of the request has another form: "%s"',
    async (id) => {
      const ids = [await idFor(id), await idFor(id)];
      for (const each of ids) expect(each).toMatch(NEW_ID);
      expect(new Set(ids).size).toBe(2);
    },
  );

  it('that cannot be written becomes an Error', async () => {
    expect(await get('answers')).toEqual(refused.failed);
  });

  it('that has begun is cut off, so that no client takes it for complete', async () => {
    await expect(get('begins')).rejects.toThrow('the connection ended');
  });
});
