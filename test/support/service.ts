import { randomBytes } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import type { Server } from 'node:http';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { expect, vi } from 'vitest';
import { createApp } from '../../src/app.ts';
import { readSettings, type SettingName } from '../../src/settings.ts';
import { LIMITS, type Limits } from '../../src/http/limits.ts';
import { watchContract } from './contract.ts';
import { Database, createDatabase } from './database.ts';
import { type Answer, type HeaderLines, ask } from './http-client.ts';

/** A pet's row; ids as text or bigint where a JavaScript number would round them. */
export type Pet = readonly [
  petId: number | bigint | string,
  quantity: number,
  status?: 'available' | 'pending' | 'sold',
];

/** The real service on a real port of 127.0.0.1, in this process. */
export interface TestService {
  /** Such as `http://127.0.0.1:45678`, without a path. */
  readonly url: string;
  readonly port: number;
  /** The bootstrap key: all scopes. */
  readonly key: string;
  readonly databaseUrl: string;
  /** Past the service, by connections of their own. */
  readonly database: Database;
  readonly app: NestExpressApplication;
  readonly server: Server;
  /** `GET /v1/inventory` with its key. */
  list(headers?: HeaderLines): Promise<Answer>;
  /** `PATCH /v1/inventory/:petId` with its key; a number is the quantity, text is the body. */
  update(petId: number | string, body: number | string, headers?: HeaderLines): Promise<Answer>;
  /** Adds pets past the service, or sets those that are there. */
  stock(...pets: readonly Pet[]): Promise<void>;
  /** Stores a key past the service, for lists and updates unless `columns` of its row say otherwise. */
  addKey(key: string, columns?: Readonly<Record<string, unknown>>): Promise<void>;
  /** One SQL statement past the service, all in one session; rows as objects, int8 as text. */
  sql<Row extends object = Record<string, unknown>>(statement: string, args?: readonly unknown[]): Promise<Row[]>;
  /**
   * Ends the service and, where it is the service's own, drops the database.
   *
   * @throws when an answer was not as the OpenAPI document says
   */
  stop(): Promise<void>;
}

/**
 * Starts the service and waits until it is ready: some 300 ms. Call it in `beforeAll`, `stop` it in `afterAll`.
 *
 * @param options.settings settings that differ from their defaults; the log is silent unless `LOG_LEVEL` says otherwise
 * @param options.limits how long connections may take over what, where that differs from the service's own
 * @param options.databaseUrl of another service's database, to run two processes' worth on one; it is then not dropped
 * @param options.key a bootstrap key other than a random one
 * @param options.prepare what to do to the application before it listens, such as adding a middleware
 */
export async function startService({
  settings = {},
  limits = {},
  databaseUrl,
  key = randomBytes(32).toString('hex'),
  prepare,
}: {
  readonly settings?: Partial<Record<SettingName, string>>;
  readonly limits?: Partial<Limits>;
  readonly databaseUrl?: string;
  readonly key?: string;
  readonly prepare?: (app: NestExpressApplication) => void | Promise<void>;
} = {}): Promise<TestService> {
  const database = databaseUrl === undefined ? await createDatabase() : new Database(databaseUrl);
  const app = await createApp(
    readSettings({ DATABASE_URL: database.url, BOOTSTRAP_API_KEY: key, LOG_LEVEL: 'silent', ...settings }),
    { ...LIMITS, ...limits },
  );
  await prepare?.(app);
  await app.listen(0, '127.0.0.1');
  const server: Server = app.getHttpServer();
  const breaches = watchContract(server);
  const { port } = server.address() as AddressInfo;
  const ready = () => ask(port, { target: '/health/ready' });
  await vi.waitFor(async () => expect((await ready()).text).toBe('{"status":"ok"}'), { timeout: 15_000, interval: 20 });
  const client = await database.session();

  async function sql<Row extends object>(statement: string, args: readonly unknown[] = []): Promise<Row[]> {
    return (await client.query<Row>(statement, [...args])).rows;
  }
  const bearer = [['Authorization', `Bearer ${key}`]] as const;
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    key,
    databaseUrl: database.url,
    database,
    app,
    server,
    sql,
    list: (headers = []) => ask(port, { target: '/v1/inventory', headers: [...bearer, ...headers] }),
    update: (petId, body, headers = []) =>
      ask(port, {
        method: 'PATCH',
        target: `/v1/inventory/${petId}`,
        headers: [...bearer, ['Content-Type', 'application/json'], ...headers],
        body: typeof body === 'number' ? JSON.stringify({ quantity: body }) : body,
      }),
    async stock(...pets) {
      await sql(
        `INSERT INTO inventory_item (pet_id, quantity, status)
         SELECT * FROM unnest($1::bigint[], $2::int[], $3::pet_status[])
         ON CONFLICT (pet_id) DO UPDATE SET quantity = excluded.quantity, status = excluded.status`,
        [pets.map(([petId]) => String(petId)), pets.map((pet) => pet[1]), pets.map((pet) => pet[2] ?? 'available')],
      );
    },
    addKey: (key, columns) => database.addKey(key, columns),
    async stop() {
      server.closeAllConnections();
      await app.close();
      await client.end();
      if (databaseUrl === undefined) await database.drop();
      if (breaches.length > 0) throw new Error(`not as openapi.json says:\n${breaches.join('\n')}`);
    },
  };
}
