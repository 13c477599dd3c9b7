import { hash, randomUUID } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { type Client, DatabaseError } from 'pg';
import { ALL_ROWS, connectionConfig, Failure, openConnection, retryUntilDeadline } from '../lib/postgres/index.ts';
import { applicationName } from '../postgres.ts';
import { repairFunctions, misplacedFunctions } from './function-repair.ts';
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

const isLockTimeout = (error: unknown) => error instanceof DatabaseError && error.code === '55P03';

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
    const pending = await refuseOrList(client, migrations);
    const functions = functionsOf(migrations);
    const repaired = await repairFunctions(functions, client); // first, so that migrations find the tables
    for (const migration of pending) await apply(client, migration);
    const misplaced = await misplacedFunctions(functions, async (sql) => (await client.query<object>(sql)).rows);
    if (misplaced.length > 0)
      throw new Failure(
        `the schema lacks its functions ${misplaced.join(', ')}; move it whole (ALTER SCHEMA … RENAME), or copy it with pg_dump`,
      );
    repaired.push(...(await repairHistory(client)));
    return [...pending.map(({ name }) => `applied ${name}`), ...repaired.map((what) => `repaired: ${what}`)];
  } finally {
    await client.end(); // releases the lock
  }
}

/** The migrations that a database lacks; cheap enough for a readiness probe. */
export async function pendingMigrations(query: (sql: string) => Promise<unknown>): Promise<string[]> {
  const names = await migrationNames(projectMigrations);
  const registers = (await query(`SELECT WHERE to_regclass('_prisma_migrations') IS NOT NULL`)) as unknown[];
  if (registers.length === 0) return names;
  const rows = (await query(
    'SELECT migration_name FROM _prisma_migrations WHERE finished_at IS NOT NULL AND rolled_back_at IS NULL',
  )) as { migration_name: string }[];
  const applied = new Set(rows.map((row) => row.migration_name));
  return names.filter((name) => !applied.has(name));
}

/** Names the functions of this release that belong to another schema, in words for the operator. */
export async function functionFault(query: (sql: string) => Promise<unknown>): Promise<string | undefined> {
  const misplaced = await misplacedFunctions(functionsOf(await readMigrations(projectMigrations)), query);
  if (misplaced.length === 0) return undefined;
  return `the schema was renamed or copied: ${misplaced.join(', ')} belong to another schema; run "inventory migrate"`;
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

function functionsOf(migrations: readonly Migration[]): string[] {
  const names = migrations.flatMap(({ sql }) => sql.match(/(?<=^CREATE (OR REPLACE )?FUNCTION ")\w+/gm) ?? []);
  return [...new Set(names)];
}

async function refuseOrList(client: Client, migrations: readonly Migration[]): Promise<Migration[]> {
  const { rows } = await client.query<{ migration_name: string; checksum: string; finished_at: Date | null }>(
    `SELECT migration_name, checksum, finished_at FROM _prisma_migrations WHERE rolled_back_at IS NULL`,
  );
  const failed = rows.find((row) => row.finished_at === null);
  if (failed)
    throw new Failure(
      `migration ${failed.migration_name} is marked as failed in this database; repair what it left, then delete its row from _prisma_migrations`,
    );
  const checksums = new Map(rows.map((row) => [row.migration_name, row.checksum]));
  if (checksums.size > 0 && !checksums.has(migrations[0]?.name ?? ''))
    throw new Failure(
      'this database was made by a version before 1.0.0, which cannot be upgraded; export the stock with that version, and import it into a new database with this one (npm start makes one when .data is gone)',
    );
  const edited = migrations.find(({ name, checksum }) => (checksums.get(name) ?? checksum) !== checksum);
  if (edited)
    throw new Failure(
      `migration ${edited.name} was edited after this database applied it; restore the file and put the change into a new migration`,
    );
  return migrations.filter(({ name }) => !checksums.has(name));
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
