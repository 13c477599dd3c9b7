import type { AddressInfo } from 'node:net';
import type { Server } from 'node:http';
import { Controller, Get, type INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AppModule } from '../src/app.module.ts';
import { readSettings } from '../src/settings.ts';
import { type TestDatabase, createDatabase } from './support/database.ts';
import { ask } from './support/http-client.ts';

const KEY = 'k'.repeat(40);
const LIST = '/v1/inventory';
const PET = '/v1/inventory/1';

/** Has been given neither a scope nor `@Public()`. */
@Controller('forgotten')
class ForgottenController {
  @Get()
  anything(): string {
    return 'secret';
  }
}

let database: TestDatabase;
let app: INestApplication;
let port: number;

beforeAll(async () => {
  database = await createDatabase();
  const settings = readSettings({ DATABASE_URL: database.url, BOOTSTRAP_API_KEY: KEY, LOG_LEVEL: 'silent' });
  const testing = await Test.createTestingModule({
    imports: [AppModule.with(settings)],
    controllers: [ForgottenController],
  }).compile();
  app = testing.createNestApplication({ logger: false });
  await app.listen(0, '127.0.0.1');
  ({ port } = (app.getHttpServer() as Server).address() as AddressInfo);
  for (const deadline = performance.now() + 10_000; performance.now() < deadline;) {
    if ((await ask(port, { target: '/health/ready' })).status === 200) break;
  }
  const client = new Client({ connectionString: database.url });
  await client.connect();
  await client.query("INSERT INTO inventory_item (pet_id, quantity, status) VALUES (1, 12, 'available')");
  await client.end();
});
afterAll(async () => {
  await app.close();
  await database.drop();
});

async function request(
  target: string,
  { method = 'GET', key = KEY, body, ...headers }: Partial<Record<'method' | 'key' | 'body' | 'If-Match', string>> = {},
) {
  const sent = Object.entries({
    ...headers,
    ...(key === '' ? {} : { Authorization: `Bearer ${key}` }),
    ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
  });
  const answer = await ask(port, { method, target, headers: sent, ...(body === undefined ? {} : { body }) });
  return { status: answer.status, headers: answer.headers, body: JSON.parse(answer.text) as unknown };
}

const error = (status: number, code: string) => ({ status, body: { status, code } });

describe('the module in an application of Nest’s own', () => {
  it('refuses who has no key, with a challenge', async () => {
    const refusal = await request(LIST, { key: '' });
    expect(refusal).toMatchObject(error(401, 'unauthorized'));
    expect(refusal.headers['www-authenticate']).toBe('Bearer realm="inventory"');
    expect(await request(LIST, { key: 'x' })).toMatchObject(error(401, 'unauthorized'));
    expect(await request(PET, { method: 'PATCH', key: '', body: '{"quantity":1}' })).toMatchObject(
      error(401, 'unauthorized'),
    );
  });

  it('lists and updates', async () => {
    expect(await request(LIST)).toMatchObject({
      status: 200,
      body: [{ petId: 1, quantity: 12, status: 'available' }],
    });
    expect(
      await request(PET, { method: 'PATCH', body: '{"quantity":11}', 'If-Match': '"available-12"' }),
    ).toMatchObject({ status: 200, body: { petId: 1, quantity: 11, status: 'available' } });
    expect((await request(LIST)).body).toEqual([{ petId: 1, quantity: 11, status: 'available' }]);
  });

  it.each([
    ['an unknown pet', '/v1/inventory/2', { body: '{"quantity":1}' }, error(404, 'not_found')],
    ['another state', PET, { body: '{"quantity":1}', 'If-Match': '"available-99"' }, error(412, 'precondition_failed')],
    ['a petId that is none', '/v1/inventory/x', { body: '{"quantity":1}' }, error(400, 'validation_failed')],
    ['a body that is not JSON', PET, { body: '{' }, error(400, 'bad_request')],
    ['no body', PET, {}, error(400, 'bad_request')],
    ['a wrong quantity', PET, { body: '{"quantity":-1}' }, error(400, 'validation_failed')],
    ['a path that is none', '/v1/nothing', {}, error(404, 'not_found')],
  ])('answers with an Error: %s', async (_, target, sent, expected) => {
    expect(await request(target, { method: 'PATCH', ...sent })).toMatchObject(expected);
  });

  it('is open to everybody for its health, and for nothing that nobody opened', async () => {
    expect(await request('/health/live', { key: '' })).toMatchObject({ status: 200, body: { status: 'ok' } });
    expect(await request('/metrics', { key: '' })).toMatchObject(error(401, 'unauthorized'));
    expect(await request('/forgotten', { key: '' })).toMatchObject(error(401, 'unauthorized'));
    const forbidden = await request('/forgotten');
    expect(forbidden).toMatchObject(error(403, 'forbidden'));
    expect(forbidden.headers['www-authenticate']).toBe('Bearer realm="inventory", error="insufficient_scope"');
  });
});
