import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import type { Client } from 'pg';
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { boundsOfRequest, Failure } from '../../src/lib/postgres/index.ts';
import { OUR_OBJECTS } from '../../src/database-errors.ts';
import { LOCK_WITHIN_MS } from '../../src/migrations/history-repair.ts';
import { applyMigrations, requireMigrations } from '../../src/migrations/migrations.ts';
import { readSettings } from '../../src/settings.ts';
import { createDatabase, type Database } from '../support/database.ts';
import { expectLists, startEveryService } from '../inventory-service/services.ts';
import { listText } from '../support/stock.ts';
import { folderWithNeeded, folderWithLater, later, names, needed } from './later-migration.ts';

const first = String(names[0]);
const applied = names.map((name) => `applied ${name}`);

describe('migrations', () => {
  let database: Database;
  let client: Client;

  beforeEach(async () => {
    database = await createDatabase({ migrated: false });
    client = await database.session();
  });

  const rows = async (sql: string): Promise<unknown[]> => (await client.query<object>(sql)).rows;
  const register = (columns: string) => rows(`SELECT ${columns} FROM _prisma_migrations ORDER BY migration_name`);

  async function migrateAndAddPets(): Promise<void> {
    await applyMigrations(database.url);
    await client.query(`INSERT INTO inventory_item SELECT n, 0, 'available' FROM generate_series(1, 3) n`);
  }

  it('bring an empty database to the newest schema, once', async () => {
    await expect(requireMigrations(rows)).rejects.toThrow();
    expect(await applyMigrations(database.url)).toEqual(applied);
    expect((await requireMigrations(rows)).length).toBeLessThan(2);
    expect(await applyMigrations(database.url)).toEqual([]);
    expect(await rows('SELECT count(*)::int AS pets FROM inventory_item')).toEqual([{ pets: 0 }]);
  });

  it('are registered as Prisma registers them', async () => {
    await applyMigrations(database.url);
    const columns = `migration_name, checksum, logs, rolled_back_at, applied_steps_count, length(id) AS id_length,
      started_at < finished_at AS is_finished`;
    expect(await register(columns)).toEqual(
      names.map((name) => ({
        migration_name: name,
        checksum: hash('sha256', readFileSync(`prisma/migrations/${name}/migration.sql`)),
        logs: null,
        rolled_back_at: null,
        applied_steps_count: 1,
        id_length: 36,
        is_finished: true,
      })),
    );
    await client.query(`INSERT INTO _prisma_migrations (id, checksum, migration_name) VALUES ('1', '2', '3')`);
    const definition = `SELECT concat_ws(' ', attname, format_type(atttypid, atttypmod), CASE WHEN attnotnull THEN 'NOT NULL' END,
        pg_get_expr(adbin, adrelid), pg_get_constraintdef(pg_constraint.oid)) AS is
      FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
      LEFT JOIN pg_constraint ON conrelid = attrelid AND contype = 'p' AND conkey = ARRAY[attnum]
      WHERE attrelid = '_prisma_migrations'::regclass AND attnum > 0 ORDER BY attnum`;
    // As Prisma's schema engine creates it (prisma/prisma, sql_schema_connector).
    expect((await rows(definition)).map((column) => Object.values(column as object)[0] as string)).toEqual([
      'id character varying(36) NOT NULL PRIMARY KEY (id)',
      'checksum character varying(64) NOT NULL',
      'finished_at timestamp with time zone',
      'migration_name character varying(255) NOT NULL',
      'logs text',
      'rolled_back_at timestamp with time zone',
      'started_at timestamp with time zone NOT NULL now()',
      'applied_steps_count integer NOT NULL 0',
    ]);
  });

  it('leave room in the pages of pets', async () => {
    await applyMigrations(database.url);
    const options = `SELECT relname, reloptions FROM pg_class WHERE relnamespace = 'public'::regnamespace AND reloptions IS NOT NULL`;
    expect(await rows(options)).toEqual([{ relname: 'inventory_item', reloptions: ['fillfactor=80'] }]);
  });

  it('make the tables, unique indexes and functions that are not of an operator', async () => {
    await applyMigrations(database.url);
    const indexes = `SELECT relname AS name FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
      WHERE indisunique AND relnamespace = 'public'::regnamespace AND relname NOT LIKE '\\_prisma%'`;
    const functions = `SELECT proname AS name FROM pg_proc WHERE pronamespace = 'public'::regnamespace`;
    const tables = `SELECT relname AS name FROM pg_class
      WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname NOT LIKE '\\_prisma%'`;
    const made = async (sql: string) => (await rows(sql)).map((row) => (row as { name: string }).name).sort();
    expect(await made(indexes)).toEqual(OUR_OBJECTS.uniqueIndexes.toSorted());
    expect(await made(functions)).toEqual(OUR_OBJECTS.functions.toSorted());
    expect(await made(tables)).toEqual(OUR_OBJECTS.tables.toSorted());
  });

  it("wait for those of Prisma's own program", async () => {
    await client.query('SELECT pg_advisory_lock(72707369)'); // its lock: prisma/prisma, advisory-lock
    const done = applyMigrations(database.url);
    expect(await Promise.race([done, pause(300, 'waits')])).toBe('waits');
    await client.query('SELECT pg_advisory_unlock_all()');
    expect(await done).toEqual(applied);
  });

  it('give up after a minute in which another process migrates', async () => {
    await client.query(`CREATE FUNCTION pg_advisory_lock(int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
      RAISE lock_not_available USING MESSAGE = current_setting('lock_timeout'); END $$`);
    const message = 'another process has been migrating this database for more than 60 s; try again when it is done';
    await expect(applyMigrations(database.url)).rejects.toMatchObject({ message, cause: { message: '1min' } });
  });

  it('give up when PostgreSQL does not answer for 15 minutes', async () => {
    await client.query('SELECT pg_advisory_lock(72707369)');
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const failure = applyMigrations(database.url).catch((error: unknown) => error);
    const waiting = `SELECT FROM pg_stat_activity
      WHERE datname = current_database() AND wait_event = 'advisory' AND application_name = 'inventory migrations'`;
    while ((await rows(waiting)).length === 0);
    vi.advanceTimersByTime(15 * 60_000 - 1);
    expect(vi.getTimerCount()).toBe(1);
    vi.advanceTimersByTime(1);
    expect(await failure).toMatchObject({ message: 'Query read timeout' });
  });

  it('change nothing when one of them fails, and can be run again', async () => {
    await client.query('CREATE TABLE inventory_item ()');
    await expect(applyMigrations(database.url)).rejects.toMatchObject({
      message: expect.stringMatching(`^migration ${first} failed and was rolled back: .*inventory_item`) as string,
      cause: { code: '42P07' },
    });
    expect(await rows("SELECT to_regtype('pet_status') AS type")).toEqual([{ type: null }]);
    expect(await register('*')).toEqual([]);
    await client.query('DROP TABLE inventory_item');
    expect(await applyMigrations(database.url)).toEqual(applied);
  });

  it('are refused when one was edited after it was applied', async () => {
    await applyMigrations(database.url);
    await client.query(`UPDATE _prisma_migrations SET checksum = 'another' WHERE migration_name = $1`, [first]);
    await expect(applyMigrations(database.url)).rejects.toThrow(
      new Failure(
        `the file of migration ${first} is not the one that this database applied; install this version anew, and put a change of yours into a new migration`,
      ),
    );
  });

  it('are refused while one is marked as failed, until it is marked as rolled back', async () => {
    await applyMigrations(database.url);
    await client.query('DELETE FROM _prisma_migrations WHERE migration_name <> $1', [first]);
    await client.query(`UPDATE _prisma_migrations SET finished_at = NULL WHERE migration_name = $1`, [first]);
    await expect(requireMigrations(rows)).rejects.toThrow();
    await expect(applyMigrations(database.url)).rejects.toThrow(
      new Failure(
        `migration ${first} is marked as failed by Prisma's program; when that has ended, run as the owner of the tables: DELETE FROM _prisma_migrations WHERE finished_at IS NULL; then "inventory migrate"`,
      ),
    );
    await client.query(`UPDATE _prisma_migrations SET rolled_back_at = now() WHERE migration_name = $1`, [first]);
    await expect(requireMigrations(rows)).rejects.toThrow();
    await expect(applyMigrations(database.url)).rejects.toMatchObject({ cause: { code: '42710' } }); // it is applied anew
  });

  it('come from the folder, and those of a newer version do not stop an older version', async () => {
    await applyMigrations(database.url);
    expect(await applyMigrations(database.url, folderWithLater())).toEqual([`applied ${later}`]);
    expect(await rows('SELECT note FROM inventory_item')).toEqual([]);
    expect(await rows('TABLE bound')).toEqual([{ longest: '15min' }]);
    expect(await applyMigrations(database.url, folderWithLater())).toEqual([]);
    expect(await applyMigrations(database.url)).toEqual([]);
    expect((await requireMigrations(rows)).length).toBeLessThan(2);
  });

  it('are refused over the tables of a version before 1.0.0', async () => {
    await applyMigrations(database.url);
    await client.query(`UPDATE _prisma_migrations SET migration_name = '20261122000000_init'`);
    await expect(requireMigrations(rows)).rejects.toThrow();
    await expect(applyMigrations(database.url)).rejects.toThrow(
      new Failure(
        'this database was made by a version before 1.0.0, which cannot be upgraded; export the stock with that version, and import it into a new database with this one (npm start makes one when .data is gone)',
      ),
    );
    expect((await register('migration_name'))[0]).toEqual({ migration_name: '20261122000000_init' });
  });

  it('upgrade the oldest database on which services run, and no list is read whole for that', async () => {
    expect(await applyMigrations(database.url, folderWithNeeded())).toEqual(applied.slice(0, needed.length));
    const key = 'k'.repeat(32);
    await database.addKey(key);
    const services = await startEveryService({ databaseUrl: database.url, key, awaitsReady: false });
    const counts = () => services.map(({ counts }) => counts.readings);
    const witness = () => rows('SELECT stock_witness(present_server_life()) AS witness');
    let quantity = 0;
    const updateByEach = async () => {
      for (const { update } of services) {
        expect((await update(1, ++quantity)).status).toBe(200);
        await expectLists(services, listText([1, quantity], [2, 2]));
      }
    };
    await database.stock([1, 0], [2, 2]);
    await updateByEach();
    const [before, readings] = [await witness(), counts()];
    expect(await applyMigrations(database.url)).toEqual(applied.slice(needed.length));
    await updateByEach();
    expect(await witness()).toEqual(before);
    const isFast = (at: number) => services[at]?.name.includes('fast');
    expect(counts().filter((_, at) => isFast(at))).toEqual(readings.filter((_, at) => isFast(at)));
    for (const { url } of services)
      await expect.poll(async () => (await fetch(`${url}/health/ready`)).status, { interval: 20 }).toBe(200);
  });

  describe('during an open transaction that has changed stock', () => {
    /**
     * How many updates of another pet failed in that time. On a busy machine a lock of 400 ms takes longer, so they
     * wait two seconds.
     */
    async function failedUpdates(withinMs: number): Promise<number> {
      let failed = 0;
      const writer = await database.session();
      await writer.query('SET lock_timeout = 2000');
      for (const over = performance.now() + withinMs; performance.now() < over;) {
        await writer.query('UPDATE inventory_item SET quantity = quantity + 1 WHERE pet_id = 2').catch(() => failed++);
        await pause(5); // its pace
      }
      return failed;
    }

    beforeEach(migrateAndAddPets);

    it('do not wait when there is nothing to do', async () => {
      await client.query(`CREATE SCHEMA other; CREATE TABLE other.inventory_item ();
        CREATE TRIGGER inventory_item_replicated AFTER INSERT ON other.inventory_item EXECUTE FUNCTION mark_unrecorded_change()`);
      await client.query('BEGIN; LOCK TABLE stock_change IN ROW EXCLUSIVE MODE');
      expect(await applyMigrations(database.url)).toEqual([]);
      await client.query(`UPDATE inventory_item SET quantity = 1 WHERE pet_id = 1`);
      expect(await applyMigrations(database.url)).toEqual([]);
    });

    it('wait for its end, and no update fails meanwhile', async () => {
      await client.query(`BEGIN; UPDATE inventory_item SET quantity = 1 WHERE pet_id = 1`);
      const done = applyMigrations(database.url, folderWithLater());
      const failed = await failedUpdates(3_000);
      await client.query('COMMIT');
      expect([failed, await done]).toEqual([0, [`applied ${later}`]]);
      const { REQUEST_DEADLINE_MS } = readSettings({ DATABASE_URL: database.url });
      expect(LOCK_WITHIN_MS).toBeLessThan(boundsOfRequest(REQUEST_DEADLINE_MS).lock_timeout);
    });

    it('give up after a minute', async () => {
      await client.query(`BEGIN; UPDATE inventory_item SET quantity = 1 WHERE pet_id = 1`);
      const from = performance.now();
      const failure = applyMigrations(database.url, folderWithLater()).catch((error: unknown) => error);
      await expect.poll(() => database.waitingForLocks(), { interval: 10 }).toBe(1);
      const over = performance.now() + 60_000;
      const clock = vi
        .spyOn(performance, 'now')
        .mockReturnValueOnce(from + 59_000)
        .mockReturnValue(over);
      onTestFinished(() => clock.mockRestore());
      expect(await failure).toMatchObject({
        cause: { code: '55P03' },
        message: `migration ${later} failed and was rolled back: for 60 s another transaction, such as an import or export, held what it needs; try again when that is done`,
      });
      expect(clock.mock.calls.length).toBeGreaterThan(1); // not a second earlier
    });

    it('give up switching the replication trigger before an update fails', async () => {
      await client.query('ALTER TABLE inventory_item ENABLE TRIGGER inventory_item_replicated');
      await client.query(`BEGIN; UPDATE inventory_item SET quantity = 1 WHERE pet_id = 1`);
      const failure = applyMigrations(database.url).catch((error: unknown) => error);
      const failed = await failedUpdates(1_500);
      await client.query('COMMIT');
      expect([failed, await failure]).toMatchObject([0, { code: '55P03' }]);
      for (const wrong of ['ENABLE', 'ENABLE ALWAYS', 'DISABLE']) {
        await client.query(`ALTER TABLE inventory_item ${wrong} TRIGGER inventory_item_replicated`);
        await applyMigrations(database.url);
        const state = `SELECT tgenabled::text FROM pg_trigger WHERE tgname = 'inventory_item_replicated'`;
        expect(await rows(state)).toEqual([{ tgenabled: 'R' }]);
      }
    });
  });
});
