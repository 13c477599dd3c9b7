import { Controller, Get, HttpException, Module, Param, Res } from '@nestjs/common';
import type { NextFunction, Request, Response } from 'express';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { refusal, refused, whole } from '../support/answers.ts';
import { ERRORS, type ErrorCode } from '../../src/errors/error-code.ts';
import { AppModule } from '../../src/app.module.ts';
import { Public } from '../../src/auth/auth.guard.ts';
import { ask } from '../support/http-client.ts';
import { type TestService, startService } from '../support/service.ts';

const SECRET = 'SELECT * FROM api_key /srv/app/secret.ts:1 psk_0000';

/** What may be thrown, by name. */
const THROWN: Readonly<Record<string, () => unknown>> = {
  'an Error': () => new Error(SECRET),
  'a string': () => SECRET,
  'a number': () => 5,
  undefined: () => undefined,
  null: () => null,
  'a symbol': () => Symbol(SECRET),
  'an object without a prototype': () => Object.create(null) as unknown,
  'an object that throws': () => ({
    get message() {
      throw new Error(SECRET);
    },
  }),
  'an Error with a cause': () => new Error(SECRET, { cause: new Error(SECRET) }),
  'a status that is none': () => Object.assign(new Error(SECRET), { status: 'SECRET' }),
  'a status of 200': () => Object.assign(new Error(SECRET), { status: 200, statusCode: 200 }),
  'an HttpException of 503': () => new HttpException(SECRET, 503),
};

/** Refusals of the framework: their status is told, their text is not. */
const REFUSED = ['bad_request', 'forbidden', 'not_found', 'payload_too_large', 'unsupported_media_type'] as const;

@Controller('faulty')
class FaultyController {
  @Public()
  @Get('throws/:what')
  throws(@Param('what') what: string): never {
    throw thing(what);
  }

  @Public()
  @Get('rejects/:what')
  async rejects(@Param('what') what: string): Promise<never> {
    await Promise.resolve();
    throw thing(what);
  }

  @Public()
  @Get('begins/:what')
  begins(@Res() response: Response): void {
    response.writeHead(200, { 'Content-Length': 1_000 }).write('begun');
    throw new Error(SECRET);
  }

  @Public()
  @Get('answers/:what')
  answers(): unknown {
    const circle: { self?: unknown } = {};
    circle.self = circle; // JSON.stringify throws
    return circle;
  }
}

@Module({ controllers: [FaultyController] })
class FaultyModule {}

function thing(what: string): unknown {
  const name = Buffer.from(what, 'base64url').toString();
  return name in THROWN ? THROWN[name]?.() : new HttpException(SECRET, ERRORS[name as ErrorCode].status);
}

let service: TestService;
const imports = Reflect.getMetadata('imports', AppModule) as unknown[];
beforeAll(async () => {
  imports.push(FaultyModule);
  service = await startService({
    prepare: (app) => {
      app.use('/faulty/middleware/:what', (request: Request, _response: Response, next: NextFunction) => {
        next(thing(request.params['what'] as string) ?? new Error(SECRET));
      });
      app.use('/faulty/thrower/:what', (request: Request) => {
        throw thing(request.params['what'] as string);
      });
    },
  });
});
afterAll(async () => {
  imports.pop();
  await service.stop();
});

async function fail(how: string, what: string) {
  const answer = await ask(service.port, { target: `/faulty/${how}/${Buffer.from(what).toString('base64url')}` });
  return whole(answer);
}

describe.each(['throws', 'rejects', 'middleware', 'thrower'])('what leaves a handler (%s)', (how) => {
  it.each(
    Object.keys(THROWN).filter((what) => how === 'throws' || how === 'rejects' || !/^(undefined|null)$/.test(what)),
  )('is an Error without anything of its inside: %s', async (what) => {
    expect(await fail(how, what)).toEqual(refused.failed);
  });

  it.each(REFUSED)('is an Error with its status when the framework refused: %s', async (code) => {
    expect(await fail(how, code)).toEqual(refusal(code, 'The request was refused.'));
  });
});

describe('a response', () => {
  it('that cannot be written is an Error', async () => {
    expect(await fail('answers', 'x')).toEqual(refused.failed);
  });

  it('that has begun is cut, so that nobody takes it for whole', async () => {
    await expect(fail('begins', 'x')).rejects.toThrow('the connection ended');
  });

  it('to the next request is not harmed', async () => {
    const answer = await ask(service.port, { target: '/health/ready' });
    expect(answer.text).toBe('{"status":"ok"}');
  });
});
