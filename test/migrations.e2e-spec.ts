import { hash } from 'node:crypto';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { setTimeout as pause } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import type { Client } from 'pg';
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { boundsOfRequest } from '../src/database/deadline.js';
import { LOCK_WITHIN_MS, mendHistory } from '../src/history/history-mending.js';
import { applyMigrations, pendingMigrations } from '../src/migrations/migrations.js';
import { SNAPSHOT } from '../src/database/snapshot.js';
import { Failure, OWN_UNIQUE_INDEXES } from '../src/errors/error-text.js';
import { readSettings } from '../src/settings.js';
import { createDatabase, type Database } from './support/database.ts';
import { startService } from './support/service.ts';

const names = readdirSync('prisma/migrations').filter((name) => !name.endsWith('.toml'));
const first = String(names[0]);
const later = '99990101000000_later';
/** A transaction id of another server. */
const AHEAD = '4611686018427387904';
const WAITING = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;

/** The project's migrations, and one that comes after them. */
function folderWithLater(): URL {
  const folder = mkdtempSync(`${tmpdir()}/inventory-migrations-`);
  onTestFinished(() => rmSync(folder, { recursive: true }));
  cpSync('prisma/migrations', folder, { recursive: true });
  mkdirSync(`${folder}/${later}`);
  const table = `CREATE TABLE bound AS SELECT current_setting('statement_timeout') AS longest`;
  writeFileSync(
    `${folder}/${later}/migration.sql`,
    `ALTER TABLE inventory_item ADD note text; ${table} -- as the last line`,
  );
  return pathToFileURL(`${folder}/`);
}

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
    expect(await pendingMigrations(rows)).toEqual(names);
    expect(await applyMigrations(database.url)).toEqual(names);
    expect(await pendingMigrations(rows)).toEqual([]);
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

  it('make tables with these columns, rules and indexes', async () => {
    await applyMigrations(database.url);
    const ofTables = `relkind = 'r' AND relname <> '_prisma_migrations' AND relnamespace = 'public'::regnamespace`;
    const told = `SELECT concat_ws(' ', relname, line) AS line FROM pg_class, LATERAL (
        SELECT concat_ws(' ', 'persistence', relpersistence, 'identity', relreplident, array_to_string(reloptions, ' '))
        UNION ALL
        SELECT concat_ws(' ', attname, format_type(atttypid, atttypmod), CASE WHEN attnotnull THEN 'NOT NULL' END,
               CASE attidentity WHEN 'd' THEN 'IDENTITY' END, pg_get_expr(adbin, adrelid))
          FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
         WHERE attrelid = pg_class.oid AND attnum > 0
        UNION ALL
        SELECT pg_get_constraintdef(pg_constraint.oid) FROM pg_constraint WHERE conrelid = pg_class.oid AND contype = 'c'
        UNION ALL
        SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = pg_class.oid
      ) AS facts (line) WHERE ${ofTables}`;
    const lines = (await rows(told)).map((row) => (row as { line: string }).line).sort();
    await expect(`${lines.join('\n')}\n`).toMatchFileSnapshot('schema.txt');
  });

  it('make the unique indexes whose conflicts pass', async () => {
    await applyMigrations(database.url);
    const indexes = `SELECT relname FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
      WHERE indisunique AND relnamespace = 'public'::regnamespace AND relname NOT LIKE '\\_prisma%'`;
    const made = (await rows(indexes)).map((row) => (row as { relname: string }).relname);
    expect(made.sort()).toEqual(OWN_UNIQUE_INDEXES.toSorted());
  });

  it('run in only one of several processes that start at the same time', async () => {
    const applied = await Promise.all(Array.from({ length: 8 }, () => applyMigrations(database.url)));
    expect(applied.flat()).toEqual(names);
  });

  it("wait for those of Prisma's own program", async () => {
    await client.query('SELECT pg_advisory_lock(72707369)'); // its lock: prisma/prisma, advisory-lock
    const applied = applyMigrations(database.url);
    expect(await Promise.race([applied, pause(300, 'waits')])).toBe('waits');
    await client.query('SELECT pg_advisory_unlock_all()');
    expect(await applied).toEqual(names);
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

  it('give up when PostgreSQL opens no session within 5 s', async () => {
    const silent = createServer().listen(0, '127.0.0.1');
    onTestFinished(() => void silent.close());
    await once(silent, 'listening');
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const { port } = silent.address() as AddressInfo;
    const failure = applyMigrations(`postgresql://127.0.0.1:${port}/x`).catch((error: unknown) => error);
    await once(silent, 'connection');
    vi.advanceTimersByTime(4_999);
    expect(vi.getTimerCount()).toBe(1);
    vi.advanceTimersByTime(1);
    expect(await failure).toMatchObject({ message: 'timeout expired' });
  });

  it('change nothing when one of them fails, and can be run again', async () => {
    await client.query('CREATE TABLE inventory_item ()');
    await expect(applyMigrations(database.url)).rejects.toThrow(
      new Failure(`migration ${first} failed and was rolled back: relation "inventory_item" already exists`),
    );
    expect(await rows("SELECT to_regtype('pet_status') AS type")).toEqual([{ type: null }]);
    expect(await register('*')).toEqual([]);
    await client.query('DROP TABLE inventory_item');
    expect(await applyMigrations(database.url)).toEqual(names);
  });

  it('are refused when one was edited after it was applied', async () => {
    await applyMigrations(database.url);
    await client.query(`UPDATE _prisma_migrations SET checksum = 'another' WHERE migration_name = $1`, [first]);
    await expect(applyMigrations(database.url)).rejects.toThrow(
      new Failure(
        `migration ${first} was edited after this database applied it; restore the file and put the change into a new migration`,
      ),
    );
  });

  it('are refused while one is marked as failed, until it is marked as rolled back', async () => {
    await applyMigrations(database.url);
    await client.query('DELETE FROM _prisma_migrations WHERE migration_name <> $1', [first]);
    await client.query(`UPDATE _prisma_migrations SET finished_at = NULL WHERE migration_name = $1`, [first]);
    expect(await pendingMigrations(rows)).toEqual(names);
    await expect(applyMigrations(database.url)).rejects.toThrow(
      new Failure(
        `migration ${first} is marked as failed in this database; repair what it left, then delete its row from _prisma_migrations`,
      ),
    );
    await client.query(`UPDATE _prisma_migrations SET rolled_back_at = now() WHERE migration_name = $1`, [first]);
    expect(await pendingMigrations(rows)).toEqual(names);
    await expect(applyMigrations(database.url)).rejects.toThrow('type "pet_status" already exists'); // it is applied anew
  });

  it('come from the folder, and those of a newer version do not stop an older version', async () => {
    await applyMigrations(database.url);
    expect(await applyMigrations(database.url, folderWithLater())).toEqual([later]);
    expect(await rows('SELECT note FROM inventory_item')).toEqual([]);
    expect(await rows('TABLE bound')).toEqual([{ longest: '15min' }]);
    expect(await applyMigrations(database.url, folderWithLater())).toEqual([]);
    expect(await applyMigrations(database.url)).toEqual([]);
    expect(await pendingMigrations(rows)).toEqual([]);
  });

  it('are refused over the tables of a version before 1.0.0', async () => {
    await applyMigrations(database.url);
    await client.query('DELETE FROM _prisma_migrations WHERE migration_name <> $1', [first]);
    await client.query(
      `UPDATE _prisma_migrations SET migration_name = '20261120000000_inventory' WHERE migration_name = $1`,
      [first],
    );
    expect(await pendingMigrations(rows)).toEqual(names);
    await expect(applyMigrations(database.url)).rejects.toThrow(
      new Failure(
        'this database was made by a version before 1.0.0, which cannot be upgraded; export the stock with that version, and import it into a new database with this one',
      ),
    );
    expect((await register('migration_name'))[0]).toEqual({ migration_name: '20261120000000_inventory' });
  });

  describe('during an open transaction that has changed stock', () => {
    /** How many updates of another pet failed in that time. On a busy machine a lock of 400 ms takes longer, so they wait two seconds. */
    async function failedUpdates(withinMs: number): Promise<number> {
      let failed = 0;
      for (const over = performance.now() + withinMs; performance.now() < over;) {
        await database
          .sql('SET lock_timeout = 2000; UPDATE inventory_item SET quantity = quantity + 1 WHERE pet_id = 2')
          .catch(() => failed++);
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
      const applied = applyMigrations(database.url, folderWithLater());
      const failed = await failedUpdates(3_000);
      await client.query('COMMIT');
      expect([failed, await applied]).toEqual([0, [later]]);
      const { REQUEST_DEADLINE_MS } = readSettings({ DATABASE_URL: database.url });
      expect(LOCK_WITHIN_MS).toBeLessThan(boundsOfRequest(REQUEST_DEADLINE_MS).lock_timeout);
    });

    it('give up after a minute', async () => {
      await client.query(`BEGIN; UPDATE inventory_item SET quantity = 1 WHERE pet_id = 1`);
      const from = performance.now();
      const failure = applyMigrations(database.url, folderWithLater()).catch((error: unknown) => error);
      await expect.poll(() => database.sql(WAITING), { interval: 10 }).toHaveLength(1);
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

  it.each([
    [
      'leave the highest of several rows',
      `INSERT INTO stock_change_pruned VALUES (7, '2020-01-01Z'), (5, '2021-01-01Z')`,
      7,
    ],
    ['add a row where all changes may follow pruned ones', `DELETE FROM stock_change_pruned`, 3],
  ])('of a restore without the schema %s of what was pruned', async (_, restored, last) => {
    await migrateAndAddPets();
    await client.query(restored);
    await applyMigrations(database.url);
    const left = await rows(
      `SELECT last_id::int, last_changed_at > '2020-06-01Z' AS is_later FROM stock_change_pruned`,
    );
    expect(left).toEqual([{ last_id: last, is_later: true }]);
  });

  describe('of a history that logical replication copied without its id sequence', () => {
    const SEQUENCE = `pg_get_serial_sequence('stock_change', 'id')`;
    const next = async () =>
      Number((await client.query<{ id: string }>(`SELECT nextval(${SEQUENCE}) AS id`)).rows[0]?.id);

    it('set a sequence that was never used, while another session reads the history', async () => {
      await applyMigrations(database.url);
      await client.query(`INSERT INTO stock_change (pet_id, id, changed_by) VALUES (1, 1, 'there')`);
      await client.query('BEGIN; SELECT FROM stock_change');
      await applyMigrations(database.url);
      expect(await next()).toBe(2);
    });

    it.each([
      ['change', `stock_change (changed_in, pet_id, changed_by) VALUES ('${AHEAD}', 1, 'there')`],
      ['mark of an unrecorded change', `unrecorded_change VALUES ('${AHEAD}')`],
    ])('leave no %s that names a transaction of the future', async (_, row) => {
      await applyMigrations(database.url);
      await client.query(`INSERT INTO ${row}`);
      await applyMigrations(database.url);
      const left = `SELECT changed_in FROM stock_change UNION SELECT changed_in FROM unrecorded_change`;
      expect(await rows(left)).not.toContainEqual({ changed_in: AHEAD });
    });

    it('leave no mark that names the next transaction, and no setting in their session', async () => {
      await applyMigrations(database.url);
      await client.query('ALTER TABLE inventory_item ENABLE TRIGGER inventory_item_replicated');
      await mendHistory(client);
      const mark = 'INSERT INTO unrecorded_change VALUES ((pg_current_xact_id()::text::bigint + 1)::text::xid8)';
      const left = async () => {
        await client.query(mark);
        await mendHistory(client);
        return await rows('DELETE FROM unrecorded_change RETURNING changed_in');
      };
      await expect.poll(left, { interval: 1 }).toEqual([]); // another test may begin that transaction first
      const kept = `SELECT current_setting('inventory.history') AS history, current_setting('lock_timeout') AS lock`;
      expect(await rows(kept)).toEqual([{ history: '', lock: '0' }]);
    });

    it('wait for who prunes the history before they move those of its rows that lie ahead', async () => {
      await applyMigrations(database.url);
      await client.query(
        `INSERT INTO stock_change (pet_id, changed_by, changed_in) VALUES (1, 'there', '${AHEAD}'), (2, 'here', '3');
         INSERT INTO unrecorded_change VALUES ('${AHEAD}'), ('3');
         SELECT setval(pg_get_serial_sequence('stock_change', 'id'), 1, false)`,
      );
      // As in every release: the lock of one that prunes while another migrates.
      const prune = await database.session(`SELECT pg_advisory_xact_lock(hashtextextended('inventory history', 0))`);
      const applied = applyMigrations(database.url, folderWithLater());
      // Longer than the migration itself may wait.
      expect(await Promise.race([applied, pause(LOCK_WITHIN_MS + 300, 'waits')])).toBe('waits');
      await prune.end();
      expect(await applied).toEqual([later]);
      expect(await rows(`SELECT pet_id FROM stock_change WHERE changed_in = '3'`)).toEqual([{ pet_id: '2' }]);
      expect(await rows('SELECT changed_in FROM unrecorded_change')).toEqual([{ changed_in: '3' }]);
      expect(await next()).toBe(3); // the sequence lagged, too
    });

    it('never set the sequence back', async () => {
      await migrateAndAddPets();
      for (let ids = 0; ids < 10; ids++) await next();
      await applyMigrations(database.url);
      expect(await next()).toBe(14);
    });

    it('can raise the sequence while updates go on', async () => {
      await migrateAndAddPets();
      await client.query(
        `INSERT INTO stock_change (pet_id, id, changed_by) SELECT 9, n, 'there' FROM generate_series(100, 3000) n`,
      );
      let isOver = false;
      const ids: number[] = [];
      const writers = Array.from({ length: 4 }, async (_, pet) => {
        const writer = await database.session();
        while (!isOver) {
          const { rows } = await writer.query<{ id: string }>(
            `INSERT INTO stock_change (pet_id, changed_by) VALUES (${pet}, 'here') RETURNING id`,
          );
          ids.push(Number(rows[0]?.id));
        }
      });
      for (let run = 0; run < 10; run++) await applyMigrations(database.url);
      isOver = true;
      await Promise.all(writers);
      expect(new Set(ids).size).toBe(ids.length);
      expect(await next()).toBeGreaterThan(Math.max(3_000, ...ids));
    });

    it('stop waiting after a short time, and when run again continue after the highest id', async () => {
      await migrateAndAddPets();
      await client.query(`INSERT INTO stock_change (pet_id, id, changed_by) VALUES (1, 5000, 'there')`);
      await client.query(`BEGIN; INSERT INTO stock_change (pet_id, changed_by) VALUES (2, 'an import')`);
      await expect(applyMigrations(database.url)).rejects.toMatchObject({ code: '55P03' });
      await client.query('COMMIT');
      await applyMigrations(database.url);
      expect(await next()).toBe(5_001);
    });

    it('never set it back below ids that were taken while they waited', async () => {
      await migrateAndAddPets();
      const writer = await database.session('LOCK TABLE stock_change IN ROW EXCLUSIVE MODE');
      await client.query(`INSERT INTO stock_change (pet_id, id, changed_by) VALUES (1, 5000, 'there')`);
      const applied = applyMigrations(database.url).catch(() => undefined); // a busy machine may exceed the lock's time
      await expect.poll(() => rows(WAITING), { interval: 10 }).toHaveLength(1);
      await client.query(`SELECT setval(${SEQUENCE}, 6000)`);
      await writer.query('COMMIT');
      await applied;
      expect(await next()).toBe(6_001);
    });
  });
});

describe('the functions of the schema', () => {
  let session: Client;

  beforeEach(async () => {
    session = await (await createDatabase()).session();
  });

  async function answer(statement: string): Promise<unknown> {
    const { rows } = await session.query<{ answer: unknown }>(`SELECT (${statement}) AS answer`);
    return rows[0]?.answer;
  }

  /** The witness after these statements, which are then rolled back. */
  async function witnessAfter(statements: string): Promise<string | null> {
    await session.query(`BEGIN; ${statements}`);
    const witness = (await answer('stock_witness(server_life())')) as string | null;
    await session.query('ROLLBACK');
    return witness;
  }

  it('name the life of the server, also for a role that may not read its token', async () => {
    const { database: name } = session;
    await session.query('BEGIN; CREATE ROLE service_only; SET LOCAL ROLE service_only');
    const life = await answer('present_server_life()');
    expect(await answer('stock_witness(present_server_life()) IS NOT NULL')).toBe(true);
    await session.query('ROLLBACK');
    const oid = String(await answer(`SELECT oid FROM pg_database WHERE datname = '${name}'`)); // a copy of the database has its token
    const reset = String(await answer('SELECT extract(epoch FROM stats_reset) FROM pg_stat_wal'));
    expect(String(life)).toMatch(new RegExp(`^[-0-9a-f]{36} [0-9]+\\.[0-9]+ ${oid} ${reset}$`));
  });

  it('are asked once in a session for the life of the server, but again until there is one', async () => {
    const told = async () =>
      (await session.query<{ life: string | null }>(`SELECT told.* FROM (SELECT ${SNAPSHOT}) AS told (life)`)).rows;
    await session.query('BEGIN READ ONLY');
    expect(await told()).toMatchObject([{ life: null }]);
    await session.query('COMMIT');
    const [first] = await told();
    expect(first?.life).toBe(await answer('present_server_life()'));
    await session.query('DELETE FROM server_life_token');
    expect(await told()).toMatchObject([{ life: first?.life }]);
  });

  it('have a witness only of the present life of the server', async () => {
    expect(await answer('stock_witness(NULL)')).toBeNull();
    const life = String(await answer('present_server_life()'));
    expect(await answer(`stock_witness('${life}')`)).not.toBeNull();
    for (const another of [`0${life}`, life.replace(/ \d+ /, ' 9$&'), life.replace(/ \d+ \S+$/, '0$&')])
      expect(await answer(`stock_witness('${another}')`)).toBeNull();
    // One life has another name after a reset of the statistics, and a session from before an upgrade keeps a shorter one.
    const witness = await answer(`stock_witness('${life}')`);
    for (const name of [`${life}0`, life.replace(/ \S+$/, '')])
      expect(await answer(`stock_witness('${name}')`)).toBe(witness);
  });

  it('have no witness while a change of stock may be missing from the history', async () => {
    await session.query('SELECT present_server_life()');
    const changes = [
      ...['inventory_item', 'stock_change'].flatMap((table) => [
        `ALTER TABLE ${table} ENABLE ROW LEVEL SECURITY`,
        `CREATE TABLE child () INHERITS (${table})`,
        `CREATE RULE also AS ON INSERT TO ${table} DO ALSO NOTHING`,
      ]),
      'ALTER TABLE inventory_item DISABLE TRIGGER inventory_item_history',
      'ALTER TABLE inventory_item ENABLE REPLICA TRIGGER inventory_item_history',
      'ALTER TABLE inventory_item ENABLE TRIGGER inventory_item_replicated',
      'ALTER TABLE inventory_item ENABLE ALWAYS TRIGGER inventory_item_replicated',
      'ALTER TABLE inventory_item DISABLE TRIGGER inventory_item_replicated',
      'CREATE TRIGGER first BEFORE INSERT ON stock_change FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()',
      `ALTER TABLE stock_change ALTER changed_in SET DEFAULT '3'`,
      'ALTER TABLE stock_change ALTER changed_in DROP DEFAULT',
    ];
    const unseen: string[] = [];
    for (const change of changes) if ((await witnessAfter(change)) !== null) unseen.push(change);
    expect(unseen).toEqual([]);
    expect(await witnessAfter('')).not.toBeNull();
  });

  it('have another witness after a change that was undone, or that keeps no history out', async () => {
    await session.query('SELECT present_server_life()');
    const before = await witnessAfter('');
    const unseen: string[] = [];
    for (const change of [
      'ALTER TABLE inventory_item RENAME TO other; ALTER TABLE other RENAME TO inventory_item',
      'ALTER TABLE stock_change RENAME TO other; ALTER TABLE other RENAME TO stock_change',
      'ALTER TABLE inventory_item DISABLE TRIGGER USER, ENABLE TRIGGER USER, ENABLE REPLICA TRIGGER inventory_item_replicated',
      'ALTER TABLE inventory_item ENABLE ALWAYS TRIGGER inventory_item_history',
      'ALTER TABLE stock_change DISABLE TRIGGER stock_change_pruning, ENABLE TRIGGER stock_change_pruning',
      `CREATE TRIGGER first BEFORE INSERT ON stock_change FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger();
       ALTER TABLE stock_change DISABLE TRIGGER first`,
      'ALTER TABLE inventory_item ALTER quantity SET STATISTICS 100',
      'ALTER TABLE stock_change ALTER changed_in SET DEFAULT pg_current_xact_id()',
      `ALTER TYPE pet_status RENAME VALUE 'sold' TO 'gone'; ALTER TYPE pet_status RENAME VALUE 'gone' TO 'sold'`,
    ])
      if ([null, before].includes(await witnessAfter(change))) unseen.push(change);
    expect(unseen).toEqual([]);
    await session.query(`INSERT INTO inventory_item VALUES (1, 5, 'sold')`);
    expect(await witnessAfter('')).toBe(before);
  });

  it('find the tables from every search path', async () => {
    await session.query(
      `SET search_path = pg_catalog; INSERT INTO public.inventory_item VALUES (1, 5, 'sold'), (2, 5, 'sold')`,
    );
    expect(await answer('public.present_server_life() IS NOT NULL')).toBe(true);
    await session.query(`BEGIN; SET LOCAL session_replication_role = replica; UPDATE public.inventory_item SET quantity = 6; COMMIT;
      BEGIN; SET LOCAL inventory.history = 'prune'; DELETE FROM public.stock_change WHERE pet_id = 1; COMMIT;
      TRUNCATE public.inventory_item`);
    expect(await answer('SELECT count(*)::int FROM public.unrecorded_change')).toBe(1); // of two pets
    expect(await answer('SELECT last_id::int FROM public.stock_change_pruned')).toBe(1);
    expect(await answer('SELECT array_agg(quantity_before ORDER BY id) FROM public.stock_change')).toEqual([
      null,
      6,
      6,
    ]);
  });
});

describe('the statements of 1.0.0 on the newest schema, beside the newest service', () => {
  it.each(['update', 'update-with-keys'])('keep the history complete and the lists exact: %s', async (update) => {
    const service = await startService();
    await service.stock([1, 5], [2, 6]);
    const old = await service.database.session();
    const run = async (statement: string, ...values: (string | null)[]) => {
      const text = readFileSync(`test/statements-1.0.0/${statement}.sql`, 'utf8');
      return (await old.query<unknown[]>({ text, values, rowMode: 'array' })).rows;
    };
    const before = (await service.list()).text;
    const digest = hash('sha256', service.key);
    const [[life, transactions, digestOfKey, , scopes, failure] = []] = await run('key-check', `{"\\\\x${digest}"}`);
    expect([digestOfKey, scopes, failure]).toEqual([digest, 'inventory:read inventory:write metrics:read', null]);
    const [[, witness, items, next] = []] = await run('next-items', String(life), '-9223372036854775808');
    expect([items, next]).toEqual([`,${before.slice(1, -1)}`, null]);

    const key = update === 'update' ? 'NULL' : 'once';
    const columns = ['{0}', '{1}', '{7}', '{NULL}', '{t}', '{NULL}', '{key:old}', '{request}', `{${key}}`];
    const lastMs = '9000000000000000';
    expect(await run(update, ...columns, lastMs, '1000')).toEqual([[0, 'done', 'available', 5]]);
    expect((await service.update(1, 8)).status).toBe(200);

    const item = '{"petId":1,"quantity":8,"status":"available"}';
    expect((await service.list()).text).toBe(`[${item},{"petId":2,"quantity":6,"status":"available"}]`);
    expect((await run('changes', String(transactions), String(life)))[0]?.slice(1)).toEqual([
      witness,
      [{ petId: '1', item }],
    ]);
    const history = await service.sql(
      `SELECT quantity_before, quantity_after, changed_by LIKE 'key:%' AS by_key FROM stock_change WHERE pet_id = 1 ORDER BY id`,
    );
    expect(history.map((change) => Object.values(change))).toEqual([
      [null, 5, false],
      [5, 7, true],
      [7, 8, true],
    ]);
  });
});
