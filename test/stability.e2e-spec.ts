import type { AddressInfo } from 'node:net';
import type { Server } from 'node:http';
import { Controller, Get, type INestApplication, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AppModule } from '../src/app.module.ts';
import { Public, RequireScope } from '../src/auth/auth.guard.ts';
import { readEnvironment } from '../src/environment.ts';
import { describeApi } from '../src/openapi/document.ts';
import { Deprecated, Stability } from '../src/openapi/stability.ts';
import { type TestDatabase, createDatabase } from './support/database.ts';
import { ask } from './support/http-client.ts';

const SINCE = new Date('2026-01-01T00:00:00Z');
const SUNSET = new Date('2027-06-30T23:59:59Z');

/** Operations as the wider interface will have them. */
@Controller('v1')
class WiderController {
  @Get('old')
  @Public()
  @Deprecated({ since: SINCE, sunset: SUNSET })
  old(): object {
    return {};
  }

  @Get('old-and-guarded')
  @RequireScope('inventory:read')
  @Deprecated({ since: SINCE })
  oldAndGuarded(): object {
    return {};
  }

  @Get('young')
  @Public()
  @Stability('beta')
  young(): object {
    return {};
  }
}

let database: TestDatabase;
let app: INestApplication;
let port: number;

beforeAll(async () => {
  database = await createDatabase();
  const environment = readEnvironment({ DATABASE_URL: database.url, LOG_LEVEL: 'silent' });
  @Module({ imports: [AppModule.with(environment)], controllers: [WiderController] })
  class WiderModule {}
  app = await NestFactory.create(WiderModule, { logger: false });
  await app.listen(0, '127.0.0.1');
  ({ port } = (app.getHttpServer() as Server).address() as AddressInfo);
});
afterAll(async () => {
  await app.close();
  await database.drop();
});

describe('a deprecated operation', () => {
  it('says since when and until when on its answers', async () => {
    const { status, headers } = await ask(port, { target: '/v1/old' });
    expect(status).toBe(200);
    expect(headers).toMatchObject({ deprecation: '@1767225600', sunset: 'Wed, 30 Jun 2027 23:59:59 GMT' });
  });

  it('says so to those that it refuses as well, and no end where none is set', async () => {
    const { status, headers } = await ask(port, { target: '/v1/old-and-guarded' });
    expect(status).toBe(401);
    expect(headers['deprecation']).toBe('@1767225600');
    expect(headers).not.toHaveProperty('sunset');
  });

  it('is marked in the document', () => {
    const { paths } = describeApi(app);
    expect(paths['/v1/old']?.get).toMatchObject({ deprecated: true, 'x-sunset': '2027-06-30' });
    expect(paths['/v1/old-and-guarded']?.get).toMatchObject({ deprecated: true });
    expect(paths['/v1/inventory']?.get).not.toHaveProperty('deprecated');
  });
});

describe('an operation that is not stable yet', () => {
  it('is marked in the document', () => {
    const { paths } = describeApi(app);
    expect(paths['/v1/young']?.get).toMatchObject({ 'x-stability': 'beta' });
    expect(paths['/v1/inventory/{petId}']?.patch).toMatchObject({ 'x-stability': 'experimental' });
    expect(paths['/v1/inventory']?.get).not.toHaveProperty('x-stability');
  });
});
