import { setTimeout as pause } from 'node:timers/promises';
import { beforeAll, describe, expect, inject, it, onTestFinished } from 'vitest';
import { connectionConfig, openConnection } from '../src/database/connection-config.ts';
import { InventoryService } from '../src/inventory/inventory.service.ts';
import { openStore, type Store } from './commands/store.ts';
import { createDatabase } from './support/database.ts';
import { hasPooler, startPooler } from './support/pooler.ts';
import { IS_FAST, type TestService, startService } from './support/service.ts';
import { listText } from './support/stock.ts';

/** What an operator, or a tool of his, may have set on the role or the database. */
const HOSTILE: readonly (readonly string[])[] = [
  ['default_transaction_isolation = serializable'],
  ['default_transaction_isolation = "repeatable read"'],
  ...(inject('postgresMajor') < 17 ? [] : [['transaction_timeout = 40']]),
  ['statement_timeout = 1'],
  ['lock_timeout = 1'],
  ['idle_session_timeout = 200'],
  ['idle_in_transaction_session_timeout = 1'],
  ['client_min_messages = error'],
  ['array_nulls = off'],
  ['bytea_output = escape'],
  ['client_encoding = LATIN1'],
  ['DateStyle = "SQL, DMY"'],
  ['TimeZone = "Asia/Kathmandu"'],
  ['standard_conforming_strings = off'],
  ['search_path = nowhere'],
  ['synchronous_commit = off'],
  // Nothing relies on these.
  `IntervalStyle = sql_standard|extra_float_digits = -15|row_security = off|quote_all_identifiers = on|transform_null_equals = on|
plan_cache_mode = force_custom_plan|enable_indexscan = off|application_name = theirs`.split('|'),
];

describe('with foreign settings on the database', () => {
  let store: Store;
  let alter: string;

  beforeAll(async () => {
    store = await openStore();
    alter = `ALTER DATABASE ${new URL(store.url).pathname.slice(1)}`;
  });

  async function emptyWith(...settings: string[]): Promise<void> {
    await store.sql(`${alter} RESET ALL; DELETE FROM inventory_item; DELETE FROM api_key`);
    for (const setting of settings) await store.sql(`${alter} SET ${setting}`);
  }

  async function startWith(...settings: string[]): Promise<TestService> {
    await emptyWith(...settings);
    await store.sql(`INSERT INTO inventory_item VALUES (1, 1, 'available'), (2, 2, 'sold')`);
    return startService({ databaseUrl: store.url });
  }

  it.each(HOSTILE)('lists, updates and keys are right with %s', async (...settings) => {
    const service = await startWith(...settings);
    const [plain, conditional, refused, absent] = await Promise.all([
      service.update(1, 11),
      service.update(2, 22, [['If-Match', '"sold-2"']]),
      service.update(1, 12, [['If-Match', '"NULL"']]),
      service.update(3, 33),
    ]);
    expect([plain.status, conditional.status, refused.status, absent.status]).toEqual([200, 200, 412, 404]);
    expect((await service.update(1, 13)).status).toBe(200); // a batch of one
    expect(JSON.parse((await service.list()).text)).toEqual([
      { petId: 1, quantity: 13, status: 'available' },
      { petId: 2, quantity: 22, status: 'sold' },
    ]);
  });

  it.each([
    ['off', { synchronous_commit: 'on' }],
    ['remote_apply', {}], // stricter than `on`
  ])(
    'a session sets what its statements rely on, and no more, with synchronous_commit = %s',
    async (theirs, others) => {
      const hasTransactionTimeout = inject('postgresMajor') >= 17;
      await emptyWith(
        `synchronous_commit = ${theirs}`,
        ...(hasTransactionTimeout ? ['transaction_timeout = 400'] : []),
      );
      const session = await openConnection(connectionConfig(store.url, 'test', { lock_timeout: 900 }));
      onTestFinished(() => session.end());
      const { rows } = await session.query<{ name: string; setting: string }>(
        `SELECT name, setting FROM pg_settings WHERE source = 'session'`,
      );
      expect(Object.fromEntries(rows.map(({ name, setting }) => [name, setting]))).toEqual({
        statement_timeout: '0',
        lock_timeout: '900',
        idle_session_timeout: '0',
        idle_in_transaction_session_timeout: '0',
        ...(hasTransactionTimeout && { transaction_timeout: '0' }),
        default_transaction_isolation: 'read committed',
        client_min_messages: 'warning',
        search_path: 'public',
        array_nulls: 'on',
        bytea_output: 'hex',
        standard_conforming_strings: 'on',
        DateStyle: 'ISO, MDY',
        TimeZone: 'UTC',
        tcp_keepalives_idle: '10',
        tcp_keepalives_interval: '5',
        tcp_keepalives_count: '3',
        ...others,
      });
    },
  );

  it('keeps its sessions with idle_session_timeout = 200', async () => {
    await startWith('idle_session_timeout = 200');
    const sessions = () =>
      store.sql(`SELECT pid FROM pg_stat_activity
                  WHERE datname = current_database() AND application_name LIKE 'inventory %' ORDER BY pid`);
    const opened = await sessions();
    expect(opened).not.toEqual([]);
    await pause(400);
    expect(await sessions()).toEqual(opened);
  });

  it.runIf(IS_FAST)('updates with and without a condition share a statement with array_nulls = off', async () => {
    const inventory = (await startWith('array_nulls = off')).app.get(InventoryService);
    const update = { quantity: 5, changedBy: 'key:test', idempotencyKey: null, requestId: 'request', reason: null };
    await Promise.all([
      inventory.setQuantity({ ...update, petId: 1n, ifMatch: null }, performance.now() + 5_000),
      inventory.setQuantity({ ...update, petId: 2n, ifMatch: ['sold-2'] }, performance.now() + 5_000),
    ]);
    expect(await store.sql('SELECT FROM stock_change WHERE quantity_after = 5 GROUP BY xmin::text')).toHaveLength(1);
  });

  it('the commands do what they say with all of them at once', async () => {
    const compatible = HOSTILE.flat().filter((setting) => !setting.includes('serializable'));
    // On a busy machine, the first statement of a connection takes longer than some milliseconds.
    await emptyWith(
      ...compatible.map((setting) => setting.replace(/^((statement|transaction)_timeout) = .*/, '$1 = 800')),
    );
    await store.sql(`CREATE FUNCTION take_longer() RETURNS TRIGGER LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(1); RETURN NULL; END';
      CREATE TRIGGER take_longer AFTER INSERT ON inventory_item EXECUTE FUNCTION take_longer();
      CREATE TRIGGER take_longer AFTER INSERT ON api_key EXECUTE FUNCTION take_longer()`);
    onTestFinished(() => store.sql('DROP FUNCTION take_longer CASCADE').then(() => undefined));
    const csv = 'petId,quantity,status\n7,8,sold\n';
    const imported = await store.inventoryReading(csv, 'import', '-', '--format', 'csv');
    const create = ['keys', 'create', '--name', 'Kässe 3', '--expires', '2d'];
    const others = [['migrate'], ['export'], create, ['history', '7']];
    const [migrated, exported, created, history] = await Promise.all(others.map((args) => store.inventory(...args)));
    for (const run of [imported, migrated, exported, created, history]) expect(run?.code, run?.stderr).toBe(0);
    expect([exported?.stdout, history?.stdout]).toEqual([csv, expect.stringContaining('8 sold')]);
    const { stdout } = await store.inventory('keys', 'list', '--json');
    const [key] = JSON.parse(stdout) as { name: string; state: string; createdAt: string }[];
    expect(key).toMatchObject({ name: 'Kässe 3', state: 'live' });
    expect(Math.abs(Date.parse(key?.createdAt ?? '') - Date.now())).toBeLessThan(60_000);
    const lasts = `SELECT expires_at BETWEEN now() + interval '47 hours' AND now() + interval '2 days' AS two_days FROM api_key`;
    expect(await store.sql(lasts)).toEqual([{ two_days: true }]); // what Prisma writes and reads has no time zone
  });

  it.each(['serializable', '"repeatable read"'])(
    'a list that waited while the table was rewritten has all pets with %s',
    async (isolation) => {
      const service = await startWith(`default_transaction_isolation = ${isolation}`);
      const rewriter = await service.database.session('ALTER TABLE inventory_item ALTER quantity TYPE bigint');
      await rewriter.query('ALTER TABLE inventory_item ALTER quantity TYPE int');
      const list = service.list();
      await pause(200);
      await rewriter.query('COMMIT');
      expect(JSON.parse((await list).text)).toHaveLength(2);
    },
  );
});

it('an import waits for its file, and an export for its reader, without a bound, and an import for others a minute', async () => {
  const store = await openStore();
  const tell = (returns: string, ...settings: string[]) =>
    `RETURNS ${returns} LANGUAGE plpgsql AS $$BEGIN
       RAISE 'bound: %', concat_ws(', ', ${settings.map((name) => `current_setting('${name}')`).join()}); END$$`;
  await store.sql(`INSERT INTO inventory_item VALUES (1, 1, 'sold');
    CREATE FUNCTION tell_reader() ${tell('boolean', 'statement_timeout', 'transaction_isolation', 'transaction_read_only')};
    ALTER TABLE inventory_item RENAME TO stock;
    CREATE VIEW inventory_item AS SELECT * FROM stock WHERE tell_reader();
    CREATE FUNCTION tell_writer() ${tell('event_trigger', 'statement_timeout')};
    CREATE EVENT TRIGGER tell ON ddl_command_end EXECUTE FUNCTION tell_writer()`);
  expect((await store.inventory('export')).stderr).toBe('error: bound: 0, read committed, on (P0001)\n');
  const imported = () => store.inventoryReading('petId,quantity,status\n', 'import', '-', '--format', 'csv');
  expect((await imported()).stderr).toBe('error: bound: 0 (P0001)\n');
  await store.sql('DROP EVENT TRIGGER tell');
  for (const [bound, longest] of [
    ['statement_timeout', '30min'],
    ['lock_timeout', '1min'],
  ] as const) {
    // PostgreSQL prefers it, for the types fit better, as the import asks for its turn.
    await store.sql(`CREATE OR REPLACE FUNCTION hashtextextended(text, integer) ${tell('bigint', bound)}`);
    expect((await imported()).stderr).toBe(`error: bound: ${longest} (P0001)\n`);
  }
});

/** As in the first part, as far as PgBouncer carries a setting from one session to another. */
const CARRIED = HOSTILE.flat().filter((setting) => /^(client_encoding|DateStyle|TimeZone|standard_conf)/.test(setting));

describe.skipIf(!hasPooler())('behind a PgBouncer in transaction mode', () => {
  it.each([
    ['the defaults', []],
    ['foreign settings on the database', CARRIED],
  ])('the service gives right lists and verdicts, and reads only changes, with %s', async (_, settings) => {
    const database = await createDatabase();
    const alter = `ALTER DATABASE ${new URL(database.url).pathname.slice(1)}`;
    for (const setting of settings) await database.sql(`${alter} SET ${setting}`);
    const pooler = await startPooler(database.url, 3);
    const pooled = await startService({ databaseUrl: pooler.url });
    const another = await startService({ databaseUrl: pooler.url, key: pooled.key });
    const direct = await startService({ databaseUrl: database.url, key: pooled.key });
    const services = [pooled, another, direct];
    const pets = Array.from({ length: 30 }, (_, at) => at);
    await direct.stock(...pets.map((petId) => [petId, 0] as const));
    for (const service of services) await service.list();
    const caches = services.map((service) => service.app.get(InventoryService).counts);
    const readings = caches.map((cache) => cache.readings);
    for (let round = 1; round <= 20; round++) {
      const updates = pets.map((petId) => (services[(petId + round) % 3] ?? direct).update(petId, round));
      const conditional = direct.update(1, 5, [['If-Match', '"sold-7"']]);
      expect((await Promise.all(updates)).map(({ status }) => status)).toEqual(pets.map(() => 200));
      expect([(await conditional).status, (await pooled.update(99, 1)).status]).toEqual([412, 404]);
      const items = pets.map((petId) => ({ petId, quantity: round, status: 'available' }));
      // Several at once, so that the pooler spreads them over its sessions.
      for (const list of await Promise.all([...services, ...services].map((service) => service.list())))
        expect(JSON.parse(list.text)).toEqual(items);
    }
    expect(caches.map((cache) => cache.readings)).toEqual(readings);
  });

  it.each(['on', 'off'] as const)('an update writes what is asked, or nothing, with FAST=%s', async (FAST) => {
    const database = await createDatabase();
    const pooler = await startPooler(database.url, 3);
    const service = await startService({ databaseUrl: pooler.url, settings: { FAST } });
    await database.stock([1, 1], [2, 2]);
    await database.sql(`CREATE FUNCTION most() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN NEW.quantity := least(NEW.quantity, 1000); RETURN NEW; END';
      CREATE TRIGGER most BEFORE UPDATE ON inventory_item FOR EACH ROW EXECUTE FUNCTION most();
      CREATE UNIQUE INDEX own_rule ON inventory_item (quantity)`);
    const told = async (...asked: [petId: number, quantity: number][]) =>
      (await Promise.all(asked.map((update) => service.update(...update)))).map(({ status }) => status);
    expect(await told([1, 1_001], [2, 12], [1, 1_001])).toEqual([400, 200, 400]);
    expect(await told([1, 12], [2, 12])).toEqual([400, 200]);
    await database.sql('CREATE RULE aside AS ON UPDATE TO inventory_item DO INSTEAD NOTHING');
    expect(await told([1, 7], [404, 7])).toEqual([503, 503]);
    await database.sql('DROP RULE aside ON inventory_item');
    expect(await told([1, 7])).toEqual([200]);
    expect((await service.list()).text).toBe(listText([1, 7], [2, 12]));
    expect(await database.sql('SELECT FROM stock_change WHERE quantity_after > 1000')).toEqual([]);
  });
});
