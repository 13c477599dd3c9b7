import pg from 'pg';
import { connectionConfig, type Prepare, UNCONFIRMED_COMMIT } from './connection-config.ts';
import { keepFacts } from './database-failure.ts';
import { boundsOfRequest } from './deadline.ts';

export const REQUEST_SETTINGS = {
  // Plans are kept: one made for a small table must not scan it when it is large.
  plan_cache_mode: 'force_generic_plan',
  enable_seqscan: 'off',
  // Until PostgreSQL 17, a plan that needs a sequential scan after all then costs 10^10, and would be compiled.
  jit: 'off',
  idle_in_transaction_session_timeout: '5000',
};
/** A renewed certificate or password counts after so long. */
export const MAX_LIFETIME_SECONDS = 1_800;

/** The session's plans no longer fit the tables, or it lacks statements that the driver has prepared. */
export const STALE_STATEMENT = /^(0A000|26000|42P05)$/;

/** What the sessions for requests need to know of the program that has them. */
export interface RequestSession {
  readonly databaseUrl: string;
  /** The `application_name` begins with it, and so do the names of statements. */
  readonly program: string;
  /** The rest of the `application_name`. */
  readonly purpose: string;
  /** How long a request may wait for the database. The bounds of locks, statements and connecting are shares of it. */
  readonly deadlineMs: number;
}

/** @param prepare runs on each new connection before it is used */
export function configOfRequests(session: RequestSession, prepare?: Prepare) {
  const { databaseUrl, program, purpose, deadlineMs } = session;
  return connectionConfig(databaseUrl, `${program} ${purpose}`, boundsOfRequest(deadlineMs), prepare, REQUEST_SETTINGS);
}

/** Connections for requests. Idle connections stay open: other clients could use up all free ones. */
export class ConnectionPool extends pg.Pool {
  /** How many commits of this pool no synchronous standby has confirmed. */
  unconfirmedCommits = 0;
  /** Their statements would fail again. */
  readonly #stale = new WeakSet<pg.ClientBase>();

  constructor(session: RequestSession, max: number) {
    super({
      ...configOfRequests(session),
      max,
      idleTimeoutMillis: 0,
      maxLifetimeSeconds: MAX_LIFETIME_SECONDS,
    });
    this.on('error', () => undefined); // of an idle connection; the next statement takes another one
    this.on('connect', (client) => {
      client.on('error', () => undefined); // the statement under way is rejected with the same error
      client.on('notice', ({ routine }) => {
        if (routine === UNCONFIRMED_COMMIT) this.unconfirmedCommits++;
      });
      keepFacts(client);
      client.connection.on('errorMessage', (error: pg.DatabaseError) => {
        if (STALE_STATEMENT.test(error.code ?? '')) this.#stale.add(client);
      });
    });
    this.on('release', (_error, client) => {
      // Prisma could not roll back: the next statement would read an old snapshot.
      if (client.getTransactionStatus() !== 'I' || this.#stale.has(client)) void client.end();
    });
  }
}
