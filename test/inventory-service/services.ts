import { afterAll, describe, expect } from 'vitest';
import { type Database, createDatabase } from '../support/database.ts';
import { HAS_POOLER, startPooler } from '../support/pooler.ts';
import { type ServiceOptions, type TestService, startService } from '../support/service.ts';

interface Options extends ServiceOptions {
  /** Puts something before the service's database, or before its pooler. @returns the address for the service */
  readonly behind?: (databaseUrl: string) => Promise<string>;
}

/** One way to make the service. */
interface ServiceKind {
  readonly isPooled: boolean;
  /** Starts it as `startService` does. `databaseUrl` is PostgreSQL itself; a pooled service uses it by its pooler. */
  readonly start: (options?: Options) => Promise<TestService>;
}

/** How many sessions a pooler has. */
export const POOLER_SESSIONS = 8;

/** What the setting FAST chooses from. README.md beside this file says how a third one is tried. */
export const SERVICES: readonly (readonly [name: string, FAST: string])[] = [
  ['the plain service', 'off'],
  ['the fast service', 'on'],
];

const KINDS = SERVICES.flatMap(([name, FAST]) => [
  { name, FAST, isPooled: false },
  { name: `${name} behind PgBouncer`, FAST, isPooled: true },
]);
type Kind = (typeof KINDS)[number];

async function startKind({ FAST, isPooled }: Kind, { behind, ...options }: Options = {}): Promise<TestService> {
  const databaseUrl = options.databaseUrl ?? (await createDatabase()).url;
  const poolerUrl = isPooled ? (await startPooler(databaseUrl, POOLER_SESSIONS)).url : databaseUrl;
  const DATABASE_URL = behind ? await behind(poolerUrl) : poolerUrl;
  return startService({ ...options, databaseUrl, settings: { FAST, DATABASE_URL, ...options.settings } });
}

/**
 * Runs the tests for each service of the contract (`src/inventory/inventory.ts`), behind PgBouncer where there is one.
 * Tests that end differently without it run {@link eachServiceBothWays}.
 */
export function eachService(promises: (kind: ServiceKind) => void): void {
  for (const kind of KINDS) if (kind.isPooled === HAS_POOLER) describeKind(kind, promises);
}

/** Directly, and behind PgBouncer where there is one. */
export function eachServiceBothWays(promises: (kind: ServiceKind) => void): void {
  for (const kind of KINDS) if (!kind.isPooled || HAS_POOLER) describeKind(kind, promises);
}

/** Never behind a pooler. */
export function eachServiceDirectly(promises: (kind: ServiceKind) => void): void {
  for (const kind of KINDS) if (!kind.isPooled) describeKind(kind, promises);
}

function describeKind(kind: Kind, promises: (kind: ServiceKind) => void): void {
  const started: TestService[] = [];
  const start = async (options?: Options) => {
    const service = await startKind(kind, options);
    started.push(service);
    return service;
  };
  describe(kind.name, () => {
    promises({ isPooled: kind.isPooled, start });
    // The end of the file is too late: PostgreSQL has connections for some of the kinds at a time.
    afterAll(() => Promise.all(started.map((service) => service.stop())));
  });
}

export type NamedService = TestService & { readonly name: string };

/**
 * Starts them on one database, with one key: for tests that take too long to run for each. The plain service runs
 * directly only: it keeps nothing of a list, and `inventory.service.spec.ts` tries its updates with the settings that a
 * pooler leaves.
 */
export async function startEveryService(options: Options & { readonly databaseUrl: string }): Promise<NamedService[]> {
  const services: NamedService[] = [];
  for (const kind of KINDS) {
    if (kind.isPooled && (kind.FAST === 'off' || !HAS_POOLER)) continue;
    const key = services[0]?.key;
    const service = await startKind(kind, key === undefined ? options : { key, ...options });
    services.push({ ...service, name: kind.name });
  }
  return services;
}

/** Asks all of them for their list, at the same time. */
export async function expectLists(services: readonly NamedService[], text: string): Promise<void> {
  const lists = await Promise.all(services.map(async ({ name, list }) => [name, (await list()).text]));
  expect(Object.fromEntries(lists)).toEqual(Object.fromEntries(services.map(({ name }) => [name, text])));
}

/** Until a list uses up no transaction id: a service notes the use of its key, and names the life of the server. */
export async function untilQuiet(database: Database, services: readonly NamedService[], text: string): Promise<void> {
  const isQuiet = async () => {
    const before = await presentSnapshot(database);
    await expectLists(services, text);
    return (await presentSnapshot(database)) === before;
  };
  await expect.poll(isQuiet).toBe(true);
}

export async function presentSnapshot(database: Database): Promise<string | undefined> {
  return (await database.sql<{ now: string }>('SELECT pg_current_snapshot()::text AS now'))[0]?.now;
}
