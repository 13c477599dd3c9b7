import { describe } from 'vitest';
import { createDatabase } from '../support/database.ts';
import { hasPooler, startPooler } from '../support/pooler.ts';
import { type ServiceOptions, type TestService, startService } from '../support/service.ts';

/** One way to make the service. */
export interface ServiceKind {
  readonly isPooled: boolean;
  /** Starts it as `startService` does. `databaseUrl` is PostgreSQL itself; a pooled service uses it by its pooler. */
  readonly start: (options?: ServiceOptions) => Promise<TestService>;
}

const KINDS = ['off', 'on'].flatMap((FAST) => [false, true].map((isPooled) => ({ FAST, isPooled })));

/** Runs the tests for each service of the contract (`src/inventory/inventory.contract.ts`), each directly and behind PgBouncer. */
export function eachService(promises: (kind: ServiceKind) => void): void {
  for (const { FAST, isPooled } of KINDS) {
    const name = `${FAST === 'on' ? 'the fast service' : 'the plain service'}${isPooled ? ' behind PgBouncer' : ''}`;
    const start = async (options: ServiceOptions = {}) => {
      const databaseUrl = options.databaseUrl ?? (await createDatabase()).url;
      const settings = { FAST, ...(isPooled && { DATABASE_URL: (await startPooler(databaseUrl, 8)).url }) };
      return startService({ ...options, databaseUrl, settings: { ...settings, ...options.settings } });
    };
    describe.skipIf(isPooled && !hasPooler())(name, () => promises({ isPooled, start }));
  }
}
