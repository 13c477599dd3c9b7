import { randomBytes } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import type { Server } from 'node:http';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { expect, vi } from 'vitest';
import { createApp } from '../../src/app.ts';
import { Inventory } from '../../src/inventory/inventory.ts';
import { InventoryCounts } from '../../src/inventory/inventory-counts.ts';
import { ListAudits } from '../../src/inventory/list/list-audits.ts';
import { Log } from '../../src/operations/log.ts';
import { readSettings, type SettingName } from '../../src/settings.ts';
import type { Limits } from '../../src/lib/http/index.ts';
import { watchContract } from './contract.ts';
import { Database, createDatabase } from './database.ts';
import { type HeaderLines, ask } from './http-client.ts';
import { PATIENCE_MS } from './patience.ts';
import { type Pet, stockStatement } from './stock.ts';
import { atTestEnd } from './test-end.ts';

// An operator would read a warning of Node.js, for example of listeners that every request adds: it fails the run.
// That a rejection was handled after all says nothing new: Vitest has printed the rejection.
process.removeAllListeners('warning').on('warning', (warning) => {
  if (warning.name !== 'PromiseRejectionHandledWarning') throw warning;
});

export interface ServiceOptions {
  /** Settings that differ from their defaults. Otherwise the log is silent, and requests wait 9 s for the database. */
  readonly settings?: Partial<Record<SettingName, string>>;
  /** Limits of connections that differ from those of the service. */
  readonly limits?: Partial<Limits>;
  /** Default: a database of its own. */
  readonly databaseUrl?: string;
  /** The bootstrap key. Default: a random one. */
  readonly key?: string;
  /** Changes the application before it listens, for example by a middleware. */
  readonly prepare?: (app: NestExpressApplication) => void | Promise<void>;
  /** Where it listens. Default: 127.0.0.1. */
  readonly host?: string;
  /** Default: true. */
  readonly awaitsReady?: boolean;
}

/** The real service on a real port of 127.0.0.1, in this process. */
export type TestService = Awaited<ReturnType<typeof startService>>;

/**
 * Starts the service and waits until it is ready, some 300 ms. It stops at the end of the test,
 * or of the file whose hook starts it.
 */
export async function startService(options: ServiceOptions = {}) {
  const { settings = {}, limits = {}, databaseUrl, prepare, host = '127.0.0.1', awaitsReady = true } = options;
  const { key = randomBytes(32).toString('hex') } = options;
  const database = databaseUrl === undefined ? await createDatabase() : new Database(databaseUrl);
  const app = await createApp(
    readSettings({
      DATABASE_URL: database.url,
      BOOTSTRAP_API_KEY: key,
      LOG_LEVEL: 'silent',
      REQUEST_DEADLINE_MS: '9000', // for a busy machine
      ...settings,
    }),
    limits,
  );
  await prepare?.(app);
  await app.listen(0, host);
  const server: Server = app.getHttpServer();
  const breaches = watchContract(server);
  const { port } = server.address() as AddressInfo;
  const ready = () => ask(port, { target: '/health/ready' });
  const expectReady = async () => expect((await ready()).text).toBe('{"status":"ok"}');
  if (awaitsReady) await vi.waitFor(expectReady, { timeout: PATIENCE_MS, interval: 20 });
  const client = await database.session();
  const bearer = [['Authorization', `Bearer ${key}`]] as const;

  /** Runs one SQL statement without the service, always in the same session. Gives int8 as text. */
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
    await app.get(Log).close();
    await client.end();
    if (breaches.length > 0) throw new Error(`not as openapi.json says:\n${breaches.join('\n')}`);
  }
  const stop = () => (stopped ??= stopOnce());
  await atTestEnd(stop);
  return {
    /** Such as `http://127.0.0.1:45678`, without a path. */
    url: `http://127.0.0.1:${port}`,
    port,
    /** The bootstrap key, with all scopes. */
    key,
    databaseUrl: database.url,
    /** The database without the service; each statement has its own connection. */
    database,
    app,
    server,
    /** The service of the stock, past HTTP. */
    inventory: app.get(Inventory),
    counts: app.get(InventoryCounts),
    audits: app.get(ListAudits),
    sql,
    /** `GET /v1/inventory` with the key. */
    list: (headers: HeaderLines = []) => ask(port, { target: '/v1/inventory', headers: [...bearer, ...headers] }),
    /** `PATCH /v1/inventory/:petId` with the key. A number is the quantity, a text is the whole body. */
    update: (petId: number | string, body: number | string, headers: HeaderLines = []) =>
      ask(port, {
        method: 'PATCH',
        target: `/v1/inventory/${petId}`,
        headers: [...bearer, ['Content-Type', 'application/json'], ...headers],
        body: typeof body === 'number' ? JSON.stringify({ quantity: body }) : body,
      }),
    /** Adds pets without the service, or sets existing ones. */
    async stock(...pets: readonly Pet[]): Promise<void> {
      await sql(...stockStatement(pets));
    },
    /** Stores a key without the service. By default it may list and update; `columns` changes its row. */
    addKey: database.addKey.bind(database),
    /**
     * Ends the service, not its database.
     *
     * @throws when a response differed from the OpenAPI document
     */
    stop,
  };
}
