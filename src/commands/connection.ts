import pg from 'pg';
import type { PrismaClient } from '../generated/prisma/client.js';
import { readEnvironment } from '../environment.js';

const connectTimeoutMs = 5_000;
/** For what answers at once; the long statements of import, export and history set their own. */
const statementTimeoutMs = 30_000;

function optionsFor(command: string): pg.ClientConfig {
  return {
    connectionString: readEnvironment().DATABASE_URL,
    application_name: `inventory ${command}`,
    connectionTimeoutMillis: connectTimeoutMs,
    statement_timeout: statementTimeoutMs,
    lock_timeout: connectTimeoutMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
  };
}

/** Runs work on one database connection of its own. When the work fails the connection is cut, not wound down. */
export async function withConnection<T>(command: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(optionsFor(command));
  client.on('error', () => undefined); // the statement under way is rejected with the same error
  await client.connect();
  try {
    const result = await work(client);
    await client.end();
    return result;
  } catch (error) {
    (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
    throw error;
  }
}

/** Runs work on a Prisma client, which is loaded only now: most commands start faster without it. */
export async function withPrisma<T>(command: string, work: (prisma: PrismaClient) => Promise<T>): Promise<T> {
  const [{ PrismaClient }, { PrismaPg }] = await Promise.all([
    import('../generated/prisma/client.js'),
    import('@prisma/adapter-pg'),
  ]);
  const prisma = new PrismaClient({ adapter: new PrismaPg({ ...optionsFor(command), max: 1 }) });
  try {
    return await work(prisma);
  } finally {
    await prisma.$disconnect();
  }
}
