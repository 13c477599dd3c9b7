import { PrismaPg } from '@prisma/adapter-pg';
import type pg from 'pg';
import type { Environment } from '../environment.js';
import type { StatementRun } from './statement-run.js';

/** PostgreSQL committed here but the wait for its standby was cut short: a failover may still lose the commit. */
export class UnconfirmedCommit extends Error {
  override message = 'the commit is not confirmed by the synchronous standby';
}

/** Options of a connection that hold wherever the service connects; all waits bounded. */
export function connectionOptions(environment: Environment, name: string): pg.PoolConfig {
  return {
    connectionString: environment.DATABASE_URL,
    application_name: `inventory ${name}`,
    connectionTimeoutMillis: environment.DATABASE_CONNECT_TIMEOUT_MS,
    lock_timeout: environment.DATABASE_LOCK_TIMEOUT_MS,
    statement_timeout: environment.DATABASE_STATEMENT_TIMEOUT_MS,
    query_timeout: environment.DATABASE_QUERY_TIMEOUT_MS,
    idle_in_transaction_session_timeout: 5_000,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    maxLifetimeSeconds: 1_800,
  };
}

/**
 * For statements that look rows up by their keys, or read them in the order of these, and nothing else. PostgreSQL would
 * plan them anew each time, which costs as much as running them; and a plan made while a table was small must not scan
 * it when it has grown.
 */
export const FIXED_PLANS: pg.PoolConfig = {
  options: '-c plan_cache_mode=force_generic_plan -c enable_seqscan=off',
};

/**
 * One database connection for one hot statement at a time. Prisma's driver adapter opens it; the statements go to the
 * driver itself. It connects when first used, and again after a failure.
 */
export class Session {
  readonly #adapter: Promise<Awaited<ReturnType<PrismaPg['connect']>>>;
  #unconfirmedCommits = 0;

  constructor(environment: Environment, name: string, options: pg.PoolConfig = {}) {
    const config = {
      ...connectionOptions(environment, name),
      max: 1,
      idleTimeoutMillis: 0,
      ...FIXED_PLANS,
      ...options,
    };
    this.#adapter = new PrismaPg(config).connect();
    void this.#adapter.then((adapter) => {
      adapter.underlyingDriver().on('connect', (client) => client.on('notice', (notice) => this.#note(notice)));
    });
  }

  /** @throws what the driver failed with */
  async run<Run extends StatementRun>(run: Run): Promise<Run> {
    const unconfirmedBefore = this.#unconfirmedCommits;
    const adapter = await this.#adapter;
    // Its type is that of a client's query, which hands the run back at once.
    await (adapter.underlyingDriver().query(run) as unknown as Promise<unknown>);
    if (this.#unconfirmedCommits > unconfirmedBefore) throw new UnconfirmedCommit();
    return run;
  }

  async close(): Promise<void> {
    await (await this.#adapter).dispose();
  }

  #note(notice: { code?: string | undefined; message?: string | undefined }): void {
    if (notice.code === '01000' && notice.message?.includes('synchronous replication')) this.#unconfirmedCommits++;
  }
}
