import { existsSync } from 'node:fs';
import { afterAll, describe } from 'vitest';
import { createDatabase } from '../support/database.ts';
import { hasPooler, startPooler } from '../support/pooler.ts';
import { type ServiceOptions, type TestService, startService } from '../support/service.ts';

interface Options extends ServiceOptions {
  /** Puts something before the service's database, or before its pooler. @returns the address for the service */
  readonly behind?: (databaseUrl: string) => Promise<string>;
}

/** One way to make the service. */
export interface ServiceKind {
  readonly isPooled: boolean;
  /** Starts it as `startService` does. `databaseUrl` is PostgreSQL itself; a pooled service uses it by its pooler. */
  readonly start: (options?: Options) => Promise<TestService>;
}

const hasFast = existsSync(new URL('../../src/inventory/fast/', import.meta.url));

/** What the setting FAST chooses from. */
export const SERVICES = [
  ['the plain service', 'off'],
  ['the fast service', 'on'],
].filter(([, FAST]) => hasFast || FAST === 'off') as [name: string, FAST: string][];

const KINDS = SERVICES.flatMap(([name, FAST]) => [
  { name, FAST, isPooled: false },
  { name: `${name} behind PgBouncer`, FAST, isPooled: true },
]);
type Kind = (typeof KINDS)[number];

async function startKind({ FAST, isPooled }: Kind, { behind, ...options }: Options = {}): Promise<TestService> {
  const databaseUrl = options.databaseUrl ?? (await createDatabase()).url;
  const poolerUrl = isPooled ? (await startPooler(databaseUrl, 8)).url : databaseUrl;
  const DATABASE_URL = behind ? await behind(poolerUrl) : poolerUrl;
  return startService({ ...options, databaseUrl, settings: { FAST, DATABASE_URL, ...options.settings } });
}

/** Runs the tests for each service of the contract (`src/inventory/inventory.contract.ts`), each directly and behind PgBouncer. */
export function eachService(promises: (kind: ServiceKind) => void): void {
  for (const kind of KINDS) {
    const { name, isPooled } = kind;
    const started: TestService[] = [];
    const start = async (options?: Options) => {
      const service = await startKind(kind, options);
      started.push(service);
      return service;
    };
    describe.skipIf(isPooled && !hasPooler())(name, () => {
      promises({ isPooled, start });
      // The end of the file is too late: PostgreSQL has connections for some of the kinds at a time.
      afterAll(() => Promise.all(started.map((service) => service.stop())));
    });
  }
}
