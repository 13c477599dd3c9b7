import type pg from 'pg';
import {
  ALL_ROWS,
  connectionConfig,
  cut,
  Failure,
  keepFacts,
  openConnection,
  queryOfClient,
  schemaForPrisma,
  UNCONFIRMED_COMMIT,
} from '../lib/postgres/index.ts';
import { applicationName, failureOf } from '../database-errors.ts';
import { requireMigrations } from '../migrations/migrations.ts';
import type { PrismaClient } from '../generated/prisma/client.ts';
import { readSettings } from '../settings.ts';

/** A client may be slow, so no transaction has a bound. */
const bounds = { connectionTimeoutMillis: 5_000, lock_timeout: 5_000, statement_timeout: 30_000 };

/** For transactions with long statements. A pooler may give the session to others, so it is no setting of the session. */
export const LONG_STATEMENTS = `SET LOCAL statement_timeout = '30min'`;

/** Whether a commit of this command did not wait for the synchronous standby. */
export let hasUnconfirmedCommit = false;

const listen = (client: pg.ClientBase) =>
  client.on('notice', ({ routine }) => {
    if (routine === UNCONFIRMED_COMMIT) hasUnconfirmedCommit = true;
  });

export async function withConnection<T>(
  command: string,
  work: (client: pg.Client) => Promise<T>,
  limits: pg.PoolConfig = bounds,
  settings: Parameters<typeof connectionConfig>[4] = ALL_ROWS,
): Promise<T> {
  const { DATABASE_URL: url } = readSettings();
  const client = await openConnection(connectionConfig(url, applicationName(command), limits, listen, settings));
  try {
    return await work(client);
  } finally {
    const impatience = setTimeout(() => cut(client), bounds.connectionTimeoutMillis);
    await client.end(); // it cuts the connection itself while a statement is under way
    clearTimeout(impatience);
  }
}

/** Runs work. When a signal ends the process meanwhile, `onSignal` says what has become of the work. */
export async function whileInterruptible<T>(onSignal: () => void, work: () => Promise<T>): Promise<T> {
  const listener = (code: number) => code >= 128 && onSignal(); // as cli.ts ends by a signal
  process.once('exit', listener);
  return work().finally(() => process.off('exit', listener));
}

/**
 * Runs work that commits.
 *
 * @param unsure what to print if the database's answer is lost: the commit may have taken place
 */
export async function whileCommitting<T>(unsure: string, commit: () => Promise<T>): Promise<T> {
  try {
    return await commit();
  } catch (error) {
    const { outcome, words } = failureOf(error);
    if (error instanceof Failure || outcome !== 'unknown') throw error;
    throw new Failure(`${words}\n${unsure}`);
  }
}

/** For work that writes stock or history: on an older schema it would break the history. */
export function withNewestSchema<T>(command: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  return withConnection(command, async (client) => {
    await requireMigrations(queryOfClient(client));
    return work(client);
  });
}

/** Runs work on a Prisma client. It is loaded only now: the other commands start faster without it. */
export async function withPrisma<T>(command: string, work: (prisma: PrismaClient) => Promise<T>): Promise<T> {
  const { PrismaClient } = await import('../generated/prisma/client.ts');
  const { PrismaPg } = await import('@prisma/adapter-pg');
  const { DATABASE_URL: url } = readSettings();
  // For when PostgreSQL does not answer.
  const query_timeout = bounds.statement_timeout + bounds.connectionTimeoutMillis;
  const prepare = (client: pg.ClientBase) => keepFacts(listen(client) as pg.Client);
  const limits = { ...bounds, query_timeout, max: 1 };
  const config = connectionConfig(url, applicationName(command), limits, prepare, ALL_ROWS);
  const prisma = new PrismaClient({ adapter: new PrismaPg(config, { schema: schemaForPrisma(url) }) });
  try {
    return await work(prisma);
  } finally {
    await prisma.$disconnect();
  }
}
