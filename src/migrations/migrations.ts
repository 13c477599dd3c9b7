import { hash, randomUUID } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { type Client, DatabaseError } from 'pg';
import {
  ALL_ROWS,
  connectionConfig,
  Failure,
  openConnection,
  type Query,
  queryOfClient,
  retryUntilDeadline,
  SQLSTATE,
} from '../lib/postgres/index.ts';
import { applicationName, NOT_NEWEST } from '../database-errors.ts';
import { LOCK_WITHIN_MS, repairHistory } from './history-repair.ts';

// Two levels up from src/migrations and from dist/migrations alike.
const projectMigrations = new URL('../../prisma/migrations/', import.meta.url);

const lockTimeoutMs = 60_000;
const migrationTimeoutMs = 15 * 60_000;
const bounds = {
  connectionTimeoutMillis: 5_000,
  lock_timeout: lockTimeoutMs,
  statement_timeout: migrationTimeoutMs,
  query_timeout: migrationTimeoutMs,
};

const isLockTimeout = (error: unknown) => error instanceof DatabaseError && error.code === SQLSTATE.lockNotAvailable;

/** The same as Prisma's own table, which `prisma migrate status` reads. */
const createRegister = `
  CREATE TABLE IF NOT EXISTS _prisma_migrations (
    id                  VARCHAR(36) PRIMARY KEY NOT NULL,
    checksum            VARCHAR(64) NOT NULL,
    finished_at         TIMESTAMPTZ,
    migration_name      VARCHAR(255) NOT NULL,
    logs                TEXT,
    rolled_back_at      TIMESTAMPTZ,
    started_at          TIMESTAMPTZ NOT NULL DEFAULT now(),
    applied_steps_count INTEGER NOT NULL DEFAULT 0
  )`;

/**
 * Brings a database to the newest schema and repairs its history. Processes that call this at the same time wait for
 * each other, at most 60 s. Unknown migrations in the database are left alone: an earlier version must be able to
 * start.
 *
 * @param connectionString of a role that may change the schema
 * @returns what this call did, a line each
 * @throws {Failure} when a migration fails now, failed earlier or was edited, or the database is older than 1.0.0
 */
export async function applyMigrations(connectionString: string, folder = projectMigrations): Promise<string[]> {
  const client = await openConnection(
    connectionConfig(connectionString, applicationName('migrations'), bounds, undefined, ALL_ROWS),
  );
  try {
    // Prisma's own advisory lock: its CLI and this runner wait for each other.
    await client.query('SELECT pg_advisory_lock(72707369)').catch((error: unknown) => {
      const why = `another process has been migrating this database for more than ${lockTimeoutMs / 1000} s; try again when it is done`;
      throw isLockTimeout(error) ? new Failure(why, { cause: error }) : error;
    });
    await client.query(createRegister);
    const migrations = await readMigrations(folder);
    const { pending } = await compareRegister(queryOfClient(client), migrations);
    for (const migration of pending) await apply(client, migration);
    const repaired = await repairHistory(client);
    return [...pending.map(({ name }) => `applied ${name}`), ...repaired.map((what) => `repaired: ${what}`)];
  } finally {
    await client.end(); // releases the lock
  }
}

/**
 * @returns the migrations that the database has and this release lacks
 * @throws {Failure} when the database lacks migrations or is older than 1.0.0, or one of them failed or was edited
 */
export async function requireMigrations(query: Query): Promise<string[]> {
  const { pending, unknown } = await compareRegister(query, await readMigrations(projectMigrations));
  if (pending.length > 0) throw new Failure(NOT_NEWEST);
  return unknown;
}

async function migrationNames(folder: URL): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true });
  return entries.flatMap((entry) => (entry.isDirectory() ? entry.name : [])).sort();
}

async function readMigration(folder: URL, name: string) {
  const sql = await readFile(new URL(`${name}/migration.sql`, folder), 'utf8');
  return { name, sql, checksum: hash('sha256', sql) };
}

type Migration = Awaited<ReturnType<typeof readMigration>>;

async function readMigrations(folder: URL): Promise<Migration[]> {
  const names = await migrationNames(folder);
  return Promise.all(names.map((name) => readMigration(folder, name)));
}

async function compareRegister(query: Query, migrations: readonly Migration[]) {
  const rows = (await query(
    `SELECT migration_name, checksum, finished_at FROM _prisma_migrations WHERE rolled_back_at IS NULL`,
  )) as { migration_name: string; checksum: string; finished_at: Date | null }[];
  const failed = rows.find((row) => row.finished_at === null);
  if (failed)
    throw new Failure(
      `migration ${failed.migration_name} is marked as failed by Prisma's program; when that has ended, run as the owner of the tables: DELETE FROM _prisma_migrations WHERE finished_at IS NULL; then "inventory migrate"`,
    );
  const checksums = new Map(rows.map((row) => [row.migration_name, row.checksum]));
  if (checksums.size > 0 && !checksums.has(migrations[0]?.name ?? ''))
    throw new Failure(
      'this database was made by a version before 1.0.0, which cannot be upgraded; export the stock with that version, and import it into a new database with this one (npm start makes one when .data is gone)',
    );
  const edited = migrations.find(({ name, checksum }) => (checksums.get(name) ?? checksum) !== checksum);
  if (edited)
    throw new Failure(
      `the file of migration ${edited.name} is not the one that this database applied; install this version anew, and put a change of yours into a new migration`,
    );
  const known = new Set(migrations.map(({ name }) => name));
  return {
    pending: migrations.filter(({ name }) => !checksums.has(name)),
    unknown: [...checksums.keys()].filter((name) => !known.has(name)),
  };
}

/**
 * One simple query is one transaction. Updates queue behind it while it waits for a lock, so it waits briefly and tries
 * again.
 */
async function apply(client: Client, { name, sql, checksum }: Migration): Promise<void> {
  const note = `INSERT INTO _prisma_migrations (id, checksum, migration_name, finished_at, applied_steps_count)
    VALUES ('${randomUUID()}', '${checksum}', ${client.escapeLiteral(name)}, clock_timestamp(), 1)`;
  const migrate = () => client.query(`SET LOCAL lock_timeout = ${LOCK_WITHIN_MS};${sql}\n;${note}`);
  try {
    await retryUntilDeadline(performance.now() + lockTimeoutMs, isLockTimeout, migrate);
  } catch (error) {
    const why = isLockTimeout(error)
      ? `for ${lockTimeoutMs / 1000} s another transaction, such as an import or export, held what it needs; try again when that is done`
      : (error as Error).message;
    throw new Failure(`migration ${name} failed and was rolled back: ${why}`, { cause: error });
  }
}
