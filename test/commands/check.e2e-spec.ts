import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { names } from '../migrations/later-migration.ts';
import { createDatabaseOn, Database } from '../support/database.ts';
import { HAS_POOLER, startPooler } from '../support/pooler.ts';
import { startFaultyPostgres } from '../support/postgres-server.ts';
import { inventory } from './inventory-command.ts';

const PASSWORD = 'hunter2';
const LAST = String(names.at(-1));

let owner: Database;

const urlOf = (parts: Partial<URL> = {}) =>
  Object.assign(new URL(owner.url), { username: 'inventory_pooled', password: PASSWORD, ...parts }).href;

beforeAll(async () => {
  const server = await startFaultyPostgres();
  await server.database.setSystem('SET max_prepared_transactions = 5');
  await server.stop();
  await server.restart();
  owner = server.database;
  await owner.sql(`INSERT INTO inventory_item SELECT n, 0, 'available' FROM generate_series(1, 200) n`);
  await createServiceRole();
  await owner.sql('SELECT present_server_life()'); // as the first request of a service
});

/** As psql runs the script. */
async function createServiceRole(): Promise<void> {
  const script = readFileSync('deploy/scale/pooled-role.sql', 'utf8')
    .replaceAll(/--.*$|^\\set .*$/gm, '')
    .replaceAll(`:'password'`, `'${PASSWORD}'`);
  for (const [, statement = '', end] of script.matchAll(/([^;\\]+)(;|\\gexec)/g)) {
    const rows = await owner.sql(statement);
    if (end !== ';') for (const row of rows) await owner.sql(String(Object.values(row)[0]));
  }
}

/** Runs the command. @returns what it says that is not "ok", each in one line, with ` / ` for each line below it */
async function check(
  url = urlOf(),
  args: readonly string[] = [],
  environment: NodeJS.ProcessEnv = {},
  clockAheadMs = 0,
) {
  const { code, stdout, stderr } = await inventory(url, ['check', ...args], '', environment, { clockAheadMs });
  expect(stdout + stderr).not.toContain(PASSWORD);
  const whatIsSo = stdout.split('\n').filter((line) => !line.startsWith(' '.repeat(19)));
  expect(whatIsSo.filter((line) => line.length > 80 && line.includes(' ', 17))).toEqual([]); // a word stays whole
  const entries = stdout.trimEnd().split(/\n(?=\S)/);
  const faults = entries.filter((entry) => entry.startsWith('fault ')).length;
  const end = `error: ${faults} of the lines above ${faults === 1 ? 'is a fault' : 'are faults'}\n`;
  expect({ code, stderr }).toEqual(faults === 0 ? { code: 0, stderr: '' } : { code: 1, stderr: end });
  return entries
    .filter((entry) => !entry.startsWith('ok '))
    .map((entry) => entry.replaceAll(/\n {19}/g, ' / ').replaceAll(/\s+/g, ' '));
}

/** Makes a fault. @returns what mends it */
type Fault = () => Promise<() => Promise<unknown>>;
const bySql =
  (make: string, mend: string): Fault =>
  async () => {
    await owner.sql(make);
    return () => owner.sql(mend);
  };
const held =
  (statement: string): Fault =>
  async () => {
    const session = await owner.session(`SET application_name = 'a forgotten window'`, statement);
    return () => session.end();
  };
const trigger = (body: string, event: string) =>
  bySql(
    `CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${body} END $$;
     CREATE ${event} ON inventory_item ${event.startsWith('C') ? 'DEFERRABLE INITIALLY DEFERRED' : ''} FOR EACH ROW EXECUTE FUNCTION meddle()`,
    'DROP FUNCTION meddle CASCADE',
  );

const lostIndex: Fault = async () => {
  const setReady = (isReady: boolean) =>
    `UPDATE pg_index SET indisready = ${isReady} WHERE indexrelid = 'inventory_item_pkey'::regclass`;
  await owner.sql(setReady(false));
  await owner.sql(`INSERT INTO inventory_item VALUES (201, 1, 'sold')`);
  await owner.sql(setReady(true));
  return () => owner.sql('REINDEX TABLE inventory_item; DELETE FROM inventory_item WHERE pet_id = 201');
};

const AS_OWNER = String.raw` / run as \S+ in the database \S+, with search_path = public and lock_timeout = '500ms'`;
const DEFINITIONS = String.raw` / the definitions in prisma/migrations/20261126150000_init/migration\.sql / then "inventory history --verify" names the pets$`;
const TRIED = 'fault trial tried as inventory_pooled / ';

const INSTALLATIONS: readonly (readonly [name: string, make: Fault, ...lines: (string | RegExp)[]])[] = [
  [
    'a missing right',
    bySql(
      'REVOKE UPDATE ON inventory_item FROM inventory_pooled',
      'GRANT UPDATE ON inventory_item TO inventory_pooled',
    ),
    RegExp(`^fault rights .* lacks rights${AS_OWNER} / GRANT UPDATE ON inventory_item TO inventory_pooled$`),
    'fault trial the role of DATABASE_URL lacks a right',
  ],
  [
    'functions that the role may not call',
    bySql(
      'REVOKE EXECUTE ON FUNCTION server_life(), stock_witness(text) FROM PUBLIC, inventory_pooled',
      'GRANT EXECUTE ON FUNCTION server_life(), stock_witness(text) TO PUBLIC',
    ),
    /^fault rights .* \/ GRANT EXECUTE ON FUNCTION server_life\(\) TO inventory_pooled \/ GRANT EXECUTE ON FUNCTION stock_witness\(text\) TO inventory_pooled$/,
    `${TRIED}key check and list: the role of DATABASE_URL lacks a right`,
  ],
  [
    'a pending migration',
    bySql(
      `UPDATE _prisma_migrations SET rolled_back_at = now() WHERE migration_name = '${LAST}'`,
      `UPDATE _prisma_migrations SET rolled_back_at = NULL`,
    ),
    'fault migrations the database has no inventory tables, or not the newest / if DATABASE_URL names the right database, run "inventory migrate"',
    ...['triggers', 'index', 'history', 'trial'].map((name) => RegExp(`^warn ${name} not looked at: see migrations$`)),
  ],
  [
    'a rule on the table',
    bySql(
      'CREATE RULE also AS ON UPDATE TO inventory_item DO ALSO DELETE FROM api_key WHERE false',
      'DROP RULE also ON inventory_item',
    ),
    `${TRIED}the update by a request of pet 1 to 1: `,
  ],
  [
    'a publication without replica identity',
    bySql(
      'ALTER TABLE inventory_item REPLICA IDENTITY NOTHING; CREATE PUBLICATION feed FOR TABLE inventory_item',
      'DROP PUBLICATION feed; ALTER TABLE inventory_item REPLICA IDENTITY DEFAULT',
    ),
    RegExp(`^${TRIED}the update by SQL of pet 1 to 1: .*\\(55000\\) / the update by a request of pet 1 to 1: .*55000`),
  ],
  [
    'no ids left for the history',
    bySql(
      `SELECT setval('stock_change_id_seq', 9223372036854775807)`,
      `SELECT setval('stock_change_id_seq', (SELECT max(id) FROM stock_change))`,
    ),
    /^fault trial .*the update by SQL of pet 1 to 1.*the update by a request of pet 1 to 1/,
  ],
  [
    'a second trigger that writes the history',
    bySql(
      'CREATE TRIGGER again AFTER UPDATE ON inventory_item FOR EACH ROW EXECUTE FUNCTION record_stock_change()',
      'DROP TRIGGER again ON inventory_item',
    ),
    RegExp(`^fault triggers .* / again on inventory_item calls a function of ours: drop it${AS_OWNER}${DEFINITIONS}`),
    `${TRIED}the update by SQL of pet 1 to 1: 2 rows of the history say it, not one / the update by a request`,
  ],
  [
    'no history',
    bySql(
      'ALTER TABLE inventory_item DISABLE TRIGGER inventory_item_history',
      'ALTER TABLE inventory_item ENABLE TRIGGER inventory_item_history',
    ),
    RegExp(`^fault triggers .* / inventory_item_history is off, missing or changed${AS_OWNER}${DEFINITIONS}`),
    /^fault trial .*the update by SQL of pet 1 to 1: 0 rows of the history say it, not one$/,
  ],
  [
    'a trigger with another function',
    bySql(
      'ALTER FUNCTION mark_unrecorded_change() RENAME TO gone',
      'ALTER FUNCTION gone() RENAME TO mark_unrecorded_change',
    ),
    /^fault triggers .* \/ inventory_item_replicated is off, missing or changed /,
  ],
  [
    'a table that lost its check',
    bySql(
      'ALTER TABLE inventory_item DROP CONSTRAINT inventory_item_quantity_check',
      'ALTER TABLE inventory_item ADD CONSTRAINT inventory_item_quantity_check CHECK (quantity >= 0)',
    ),
    RegExp(`^fault triggers .* / inventory_item lacks its CHECK \\(quantity >= 0\\)${AS_OWNER}`),
  ],
  [
    'a sequence whose sessions take many ids at once',
    bySql('ALTER SEQUENCE stock_change_id_seq CACHE 50', 'ALTER SEQUENCE stock_change_id_seq CACHE 1'),
    /^fault triggers .* \/ the sequence stock_change_id_seq has CACHE 50, not 1 \//,
  ],
  [
    'a table that is gone',
    bySql('ALTER TABLE unrecorded_change RENAME TO gone', 'ALTER TABLE gone RENAME TO unrecorded_change'),
    /^fault rights relation "unrecorded_change" does not exist \/ somebody dropped or renamed it/,
    /^fault history relation "unrecorded_change" does not exist/,
  ],
  [
    'an index that lacks a pet',
    lostIndex,
    RegExp(`^fault index an index of inventory_item is damaged${AS_OWNER}, until it succeeds: REINDEX TABLE`),
  ],
  [
    'a history that migrate would mend',
    bySql(`SELECT setval('stock_change_id_seq', 1)`, `SELECT setval('stock_change_id_seq', max(id)) FROM stock_change`),
    /^fault history a restore, .* \/ run "inventory migrate" as the owner .* \/ it prints "repaired: ids of new changes follow the newest one"$/,
  ],
  [
    'a standby that is away',
    async () => {
      await owner.setSystem(`SET synchronous_standby_names = 'another'`);
      return async () => {
        await owner.setSystem('RESET synchronous_standby_names');
        await expect
          .poll(() => owner.sql('SHOW synchronous_standby_names'))
          .toMatchObject([{ synchronous_standby_names: '' }]);
      };
    },
    /^fault primary commits wait for a synchronous standby \/ bring it back, .*standbys needed: 1, connected: 0 /,
  ],
  [
    'a role that may not write',
    bySql(
      'ALTER ROLE inventory_pooled SET default_transaction_read_only = on',
      'ALTER ROLE inventory_pooled RESET default_transaction_read_only',
    ),
    /^fault primary default_transaction_read_only is on by "user" \/ ask first who stopped writes, .* \/ SELECT pg_reload_conf\(\)$/,
    'fault trial the database takes no writes',
  ],
  [
    'a table that somebody locks',
    held('LOCK TABLE inventory_item'),
    ...['index', 'triggers'].map((name) => RegExp(`^warn ${name} not looked at: another transaction holds`)),
    /^fault locks transactions keep others from pets or tables \/ pid \d+ \(a forgotten window, role \S+\) since \S+Z \/ let them end /,
    'fault trial',
  ],
  [
    'a pet that an idle transaction holds',
    held('SELECT FROM inventory_item WHERE pet_id = 150 FOR UPDATE'),
    /^fault locks .* \/ pid \d+ \(a forgotten window, role \S+\) since \S+Z \/ let them end /,
  ],
  [
    'a pet that a prepared transaction holds',
    bySql(
      `BEGIN; SELECT FROM inventory_item WHERE pet_id = 150 FOR UPDATE; PREPARE TRANSACTION 'of a crash'`,
      `ROLLBACK PREPARED 'of a crash'`,
    ),
    /^fault locks .* \/ a prepared transaction \/ let them end /,
  ],
  [
    'a rule that refuses an update',
    trigger(`RAISE 'closed';`, 'CONSTRAINT TRIGGER meddle AFTER UPDATE'),
    /^warn trial tried as inventory_pooled \/ the update by SQL of pet 1 to 1 is refused by a rule of yours: closed \(P0001\) \/ the update by a request of pet 1 to 1 is refused .*closed \(P0001\)$/,
  ],
  [
    'a column that takes no update of a request',
    bySql(
      'ALTER TABLE stock_change ADD CONSTRAINT short CHECK (length(request_id) < 6) NOT VALID',
      'ALTER TABLE stock_change DROP CONSTRAINT short',
    ),
    /^fault trial tried as inventory_pooled \/ the update by a request of pet 1 to 1: .*\(23514\)$/,
  ],
  [
    'a trigger that changes updates',
    trigger('NEW.quantity = 7; RETURN NEW;', 'TRIGGER meddle BEFORE UPDATE'),
    /^warn trial .*the update by SQL of pet 1 to 1 is refused by a rule of yours: a trigger changed the row or kept it back \/ the update by a request .* \/ let the trigger raise an error instead$/,
  ],
  [
    'pets that others hold',
    held('SELECT FROM inventory_item WHERE pet_id <= 100 FOR UPDATE'),
    'fault locks',
    /^warn trial tried as inventory_pooled: a list, but no update: the role sees no pet, or others hold the first hundred$/,
  ],
  [
    'a key about to expire',
    async () => {
      await owner.addKey('x'.repeat(40), { id: 'expiring', expires_at: new Date(Date.now() + 3 * 86_400_000) });
      return () => owner.sql(`DELETE FROM api_key WHERE id = 'expiring'`);
    },
    /^warn keys keys expire within a week \/ expiring \(\S+Z\) \/ .* \/ inventory keys rotate <id> --overlap 7d --expires <when>$/,
  ],
  [
    'a role whose commits do not last',
    bySql(
      'ALTER ROLE inventory_pooled SET synchronous_commit = off',
      'ALTER ROLE inventory_pooled RESET synchronous_commit',
    ),
    /^warn primary .* \/ ALTER ROLE inventory_pooled SET synchronous_commit = on$/,
  ],
  [
    'what a role may not see',
    bySql(
      'REVOKE SELECT ON stock_change_id_seq FROM inventory_pooled',
      'GRANT SELECT ON stock_change_id_seq TO inventory_pooled',
    ),
    RegExp(`^warn history not looked at: .*${AS_OWNER} / GRANT SELECT ON stock_change_id_seq TO inventory_pooled$`),
  ],
];

const ROWS = INSTALLATIONS.map(([name, make, ...lines]) => [name, make, lines] as const);
it.each(ROWS)('inventory check names %s, and nothing else', async (_name, make, lines) => {
  const mend = await make();
  onTestFinished(async () => {
    await mend();
  });
  const found = await check();
  const expected = lines.map((line) =>
    typeof line === 'string' ? (expect.stringContaining(line) as unknown) : (expect.stringMatching(line) as unknown),
  );
  expect(found).toHaveLength(lines.length);
  expect(found).toEqual(expect.arrayContaining(expected));
});

it('inventory check is silent on what an operator may add, and keeps nothing of what it tried', async () => {
  await owner.sql(`
    ALTER TABLE inventory_item ADD note text; CREATE INDEX more ON inventory_item (quantity);
    CREATE FUNCTION stock_changed_by(integer) RETURNS integer LANGUAGE sql AS 'SELECT 1'`);
  onTestFinished(async () => {
    await owner.sql('ALTER TABLE inventory_item DROP note; DROP INDEX more; DROP FUNCTION stock_changed_by(integer)');
  });
  const contents = () =>
    owner.sql(`SELECT (SELECT array_agg(i ORDER BY pet_id)::text FROM inventory_item AS i) AS pets,
                      (SELECT count(*) FROM stock_change) AS changes, (SELECT last_value FROM stock_change_id_seq) AS last`);
  const before = await contents();
  expect(await check(urlOf(), ['--read-only'])).toEqual([]);
  expect(await contents()).toEqual(before);
  expect(await check()).toEqual([]);
  expect(await contents()).toEqual([{ ...before[0], last: String(Number(before[0]?.['last']) + 2) }]);
});

it('inventory check says that it tried as the owner, and that nothing was tried in an empty store', async () => {
  const { url } = await createDatabaseOn(owner.url);
  expect(await check(owner.url)).toEqual([
    'warn trial tried as postgres, the owner of the tables: a list and two updates / if the service has a role of its own, run this as that role',
  ]);
  expect(await check(url)).toEqual([
    expect.stringMatching(
      /^warn trial tried as \S+, the owner of the tables: a list, but no update: the role sees no pet/,
    ),
  ]);
});

it.runIf(HAS_POOLER)('inventory check works behind PgBouncer, and leaves nothing in its sessions', async () => {
  const { url } = await startPooler(urlOf(), 1);
  const settings = () =>
    new Database(url).sql(
      `SELECT pg_backend_pid() AS pid, name, setting FROM pg_settings WHERE source = 'session' AND name <> 'application_name'`,
    );
  const before = await settings();
  expect(await check(url)).toEqual([]);
  expect(await settings()).toEqual(before);
});

it('inventory check names a wrong password, a wrong schema, and one that the role may not use', async () => {
  expect(await check(urlOf({ password: 'wrong' }))).toEqual([
    expect.stringMatching(/^fault address the database refuses the login: .* \(28P01\) \/ check user and password: /),
  ]);
  const [first, ...others] = await check(urlOf({ search: '?schema=nowhere' }));
  expect(first).toMatch(/^fault schema the schema of DATABASE_URL is not there, .* \/ public has inventory tables$/);
  for (const line of others) expect(line).toMatch(/^warn \S+ not looked at: see (schema|migrations)$/);
  await owner.sql('REVOKE USAGE ON SCHEMA public FROM PUBLIC');
  onTestFinished(async () => {
    await owner.sql('GRANT USAGE ON SCHEMA public TO PUBLIC');
  });
  expect((await check())[0]).toMatch(/^fault schema .*, or run GRANT USAGE ON SCHEMA as its owner$/);
});

it.each([
  [-600, 'ahead of'],
  [600, 'behind'],
])('inventory check names a clock of this machine that is %i s off', async (seconds, direction) => {
  expect(await check(urlOf(), [], {}, seconds * 1_000)).toEqual([
    expect.stringMatching(RegExp(`^warn clock the database is (599|600|601) s ${direction} this machine / set both`)),
  ]);
});

it('inventory check names settings that cannot work, and a database that does not answer', async () => {
  const silent = createServer().listen(0, '127.0.0.1');
  onTestFinished(() => void silent.close());
  await once(silent, 'listening');
  const { port } = silent.address() as AddressInfo;
  for (const [url, words] of [
    ['', /^fault address DATABASE_URL must be .* \/ PORT must be /],
    [`postgresql://a@127.0.0.1:${port}/b`, /^fault address the database did not answer in time \/ check DATABASE_URL/],
  ] as const)
    expect(await check(url, [], { PORT: url ? '1' : 'x' })).toEqual([expect.stringMatching(words)]);
});
