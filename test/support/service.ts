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
import { type HeaderLines, ask } from './http-client.ts';
import { type Pet, stockStatement } from './stock.ts';
import { atTestEnd } from './test-end.ts';

/** False in the project `plain`, which holds the plain service to the same promises. */
export const IS_FAST = process.env['FAST'] !== 'off';

interface Options {
  /** Those that differ from their defaults; the log is silent unless `LOG_LEVEL` says otherwise. */
  readonly settings?: Partial<Record<SettingName, string>>;
  /** How long connections may take over what, where that differs from the service's own. */
  readonly limits?: Partial<Limits>;
  /** Of another service's database, to run two processes' worth on one; it is then not dropped. */
  readonly databaseUrl?: string;
  /** A bootstrap key other than a random one. */
  readonly key?: string;
  /** What to do to the application before it listens, such as adding a middleware. */
  readonly prepare?: (app: NestExpressApplication) => void | Promise<void>;
}

/** The real service on a real port of 127.0.0.1, in this process. */
export type TestService = Awaited<ReturnType<typeof startService>>;

/**
 * Starts the service and waits until it is ready: some 300 ms. Called in a test it stops at the test's end; called in
 * `beforeAll`, `stop` it in `afterAll`.
 */
export async function startService(options: Options = {}) {
  const { settings = {}, limits = {}, databaseUrl, key = randomBytes(32).toString('hex'), prepare } = options;
  const database = databaseUrl === undefined ? await createDatabase() : new Database(databaseUrl);
  const app = await createApp(
    readSettings({
      DATABASE_URL: database.url,
      BOOTSTRAP_API_KEY: key,
      LOG_LEVEL: 'silent',
      FAST: IS_FAST ? 'on' : 'off',
      ...settings,
    }),
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
  const bearer = [['Authorization', `Bearer ${key}`]] as const;

  /** One SQL statement past the service, all in one session; rows as objects, int8 as text. */
  async function sql<Row extends object = Record<string, unknown>>(
    statement: string,
    args: readonly unknown[] = [],
  ): Promise<Row[]> {
    return (await client.query<Row>(statement, [...args])).rows;
  }
  let stopped: Promise<void> | undefined;
  async function stopOnce(): Promise<void> {
    server.closeAllConnections();
    await app.close();
    await client.end();
    if (databaseUrl === undefined) await database.drop();
    if (breaches.length > 0) throw new Error(`not as openapi.json says:\n${breaches.join('\n')}`);
  }
  const stop = () => (stopped ??= stopOnce());
  await atTestEnd(stop);
  return {
    /** Such as `http://127.0.0.1:45678`, without a path. */
    url: `http://127.0.0.1:${port}`,
    port,
    /** The bootstrap key: all scopes. */
    key,
    databaseUrl: database.url,
    /** Past the service, by connections of their own. */
    database,
    app,
    server,
    sql,
    /** `GET /v1/inventory` with its key. */
    list: (headers: HeaderLines = []) => ask(port, { target: '/v1/inventory', headers: [...bearer, ...headers] }),
    /** `PATCH /v1/inventory/:petId` with its key; a number is the quantity, text is the body. */
    update: (petId: number | string, body: number | string, headers: HeaderLines = []) =>
      ask(port, {
        method: 'PATCH',
        target: `/v1/inventory/${petId}`,
        headers: [...bearer, ['Content-Type', 'application/json'], ...headers],
        body: typeof body === 'number' ? JSON.stringify({ quantity: body }) : body,
      }),
    /** Adds pets past the service, or sets those that are there. */
    async stock(...pets: readonly Pet[]): Promise<void> {
      await sql(...stockStatement(pets));
    },
    /** Stores a key past the service, for lists and updates unless `columns` of its row say otherwise. */
    addKey: database.addKey.bind(database),
    /**
     * Ends the service and, where it is the service's own, drops the database.
     *
     * @throws when an answer was not as the OpenAPI document says
     */
    stop,
  };
}

/** For what only a test may start, never a hook. */
export const startServiceOfTest = startService;
