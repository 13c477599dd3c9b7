import type pg from 'pg';
import { connectionConfig, cut, openConnection, schemaOf } from '../database/connection-config.js';
import type { PrismaClient } from '../generated/prisma/client.js';
import { readSettings } from '../settings.js';

const connectTimeoutMs = 5_000;
/** For what answers at once; the long statements of import, export and history set their own. */
const statementTimeoutMs = 30_000;

/** A client may be slow to send what it imports, so its transactions have no bound. */
const settings = { idle_in_transaction_session_timeout: '0' };

function configFor(command: string, databaseUrl: string) {
  const connectionTimeoutMillis = connectTimeoutMs;
  const bounds = { connectionTimeoutMillis, statement_timeout: statementTimeoutMs, lock_timeout: connectTimeoutMs };
  return connectionConfig(databaseUrl, command, bounds, settings);
}

/** Runs work on one database connection of its own. When the work fails the connection is cut, not wound down. */
export async function withConnection<T>(command: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = await openConnection(configFor(command, readSettings().DATABASE_URL));
  try {
    const result = await work(client);
    await client.end();
    return result;
  } catch (error) {
    cut(client);
    throw error;
  }
}

/** Runs work on a Prisma client, which is loaded only now: most commands start faster without it. */
export async function withPrisma<T>(command: string, work: (prisma: PrismaClient) => Promise<T>): Promise<T> {
  const [{ PrismaClient }, { PrismaPg }] = await Promise.all([
    import('../generated/prisma/client.js'),
    import('@prisma/adapter-pg'),
  ]);
  const { DATABASE_URL } = readSettings();
  const query_timeout = statementTimeoutMs + connectTimeoutMs; // for when PostgreSQL does not answer
  const config = { ...configFor(command, DATABASE_URL), query_timeout, max: 1 };
  const prisma = new PrismaClient({ adapter: new PrismaPg(config, { schema: schemaOf(DATABASE_URL) }) });
  try {
    return await work(prisma);
  } finally {
    await prisma.$disconnect();
  }
}
