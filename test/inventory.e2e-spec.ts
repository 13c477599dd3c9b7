import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Controller, Get, type INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { AppModule } from '../src/app.module.ts';
import { LIMITS, StrictExpressAdapter } from '../src/lib/http/index.ts';
import { readSettings } from '../src/settings.ts';
import { SERVICES } from './inventory-service/services.ts';
import { type Database, createDatabase } from './support/database.ts';
import { ask } from './support/http-client.ts';

/*
 * The published interface in short, asked of the module as @nestjs/testing starts it.
 * The edges of each promise are in the files beside this one and in http/.
 */

const KEY = 'a-key-with-every-scope-0123456789abcdef';
const LIST = '/v1/inventory';
const CAT = '/v1/inventory/9007199254740993';

/** Has been given neither a scope nor `@Public()`. */
@Controller('forgotten')
class ForgottenController {
  @Get()
  anything(): string {
    return 'secret';
  }
}

let database: Database;
let app: INestApplication;
let port: number;

async function start(FAST: string, adapter?: StrictExpressAdapter): Promise<void> {
  database = await createDatabase();
  const settings = readSettings({ DATABASE_URL: database.url, BOOTSTRAP_API_KEY: KEY, LOG_LEVEL: 'silent', FAST });
  const module = Test.createTestingModule({ imports: [AppModule.with(settings)], controllers: [ForgottenController] });
  const testing = await module.compile();
  app = adapter
    ? testing.createNestApplication(adapter, { logger: false })
    : testing.createNestApplication({ logger: false });
  await app.listen(0, '127.0.0.1');
  ({ port } = (app.getHttpServer() as Server).address() as AddressInfo);
  await vi.waitFor(async () => expect((await request('GET', '/health/ready')).status).toBe(200), 10_000);
}

type Sent = Partial<Record<'key' | 'body' | 'If-Match', string>>;

async function request(method: string, target: string, { key = KEY, body, ...headers }: Sent = {}) {
  const authorization = key === '' ? {} : { Authorization: `Bearer ${key}` };
  const question = { method, target, headers: { 'Content-Type': 'application/json', ...authorization, ...headers } };
  return ask(port, body === undefined ? question : { ...question, body });
}

/** An Error, and the status that goes with its code. */
function error(status: number, code: string) {
  return { status, text: expect.stringMatching(`^{"code":"${code}","message":"[^"]+","status":${status}}$`) as string };
}

describe.each(
  SERVICES.flatMap(([name, FAST]) => [
    [name, FAST, undefined] as const,
    [`${name} on the adapter of production`, FAST, new StrictExpressAdapter(LIMITS)] as const,
  ]),
)('%s', (_, fast, adapter) => {
  beforeAll(() => start(fast, adapter));
  beforeEach(() =>
    database.sql(`DELETE FROM inventory_item;
      INSERT INTO inventory_item (pet_id, quantity, status) VALUES (9007199254740993, 12, 'available'), (-3, 0, 'sold')`),
  );
  afterAll(() => app.close());

  describe('GET /v1/inventory', () => {
    it('lists all pets in ascending order with every digit of their petIds', async () => {
      expect(await request('GET', LIST)).toMatchObject({
        status: 200,
        text: '[{"petId":-3,"quantity":0,"status":"sold"},{"petId":9007199254740993,"quantity":12,"status":"available"}]',
      });
    });
  });

  describe('PATCH /v1/inventory/:petId', () => {
    const ITEM = '{"petId":9007199254740993,"quantity":11,"status":"available"}';

    it('sets the quantity, answers with the item and its tag, and every later list has it', async () => {
      expect(await request('PATCH', CAT, { body: '{"quantity":11}' })).toMatchObject({
        status: 200,
        headers: { etag: '"available-11"' },
        text: ITEM,
      });
      expect((await request('GET', LIST)).text).toBe(`[{"petId":-3,"quantity":0,"status":"sold"},${ITEM}]`);
    });

    it('sets it if If-Match has the present tag, and otherwise answers 412 with that tag', async () => {
      const update = { body: '{"quantity":11}', 'If-Match': '"available-12"' };
      expect(await request('PATCH', CAT, update)).toMatchObject({ status: 200, headers: { etag: '"available-11"' } });
      expect(await request('PATCH', CAT, update)).toMatchObject({
        ...error(412, 'precondition_failed'),
        headers: { etag: '"available-11"' },
      });
    });

    it('answers with an Error to a member beside quantity', async () => {
      const body = '{"quantity":1,"status":"sold"}';
      expect(await request('PATCH', CAT, { body })).toMatchObject(error(400, 'validation_failed'));
    });
  });

  describe('the API key', () => {
    it.each([
      ['GET', LIST],
      ['PATCH', CAT],
      ['GET', '/metrics'],
      ['GET', '/forgotten'],
    ])('is required by %s %s', async (method, target) => {
      for (const [key, challenge] of [
        ['', 'Bearer realm="inventory"'],
        ['x', 'Bearer realm="inventory", error="invalid_token"'],
      ] as const) {
        const refused = { ...error(401, 'unauthorized'), headers: { 'www-authenticate': challenge } };
        expect(await request(method, target, { key })).toMatchObject(refused);
      }
    });

    it('does not open a handler that names no scope', async () => {
      expect(await request('GET', '/forgotten')).toMatchObject({
        ...error(403, 'forbidden'),
        headers: { 'www-authenticate': 'Bearer realm="inventory", error="insufficient_scope"' },
      });
    });
  });
});
