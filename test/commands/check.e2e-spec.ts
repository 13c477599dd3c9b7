import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import packageFile from '../../package.json' with { type: 'json' };
import { names } from '../migrations/later-migration.ts';
import type { Database } from '../support/database.ts';
import { HAS_POOLER, startPooler } from '../support/pooler.ts';
import { startReplicated } from '../support/postgres-server.ts';
import { ServiceProcess } from '../support/service-process.ts';
import { withTrigger } from '../support/triggers.ts';
import { inventory, outcomeOf, startInventory, withClockAhead } from './inventory-command.ts';

const PASSWORD = 'hunter2';
const KEY = `metrics-${'k'.repeat(40)}`;
const WITH_KEY = { INVENTORY_KEY: KEY };

let replicated: Awaited<ReturnType<typeof startReplicated>>;
let owner: Database;

beforeAll(async () => {
  replicated = await startReplicated();
  owner = replicated.primary;
  await owner.sql(`INSERT INTO inventory_item SELECT n, 0, 'available' FROM generate_series(1, 100) n`);
  await createServiceRole();
  await owner.addKey(KEY, { id: 'scraper1', scopes: ['metrics:read'] });
  await replicated.awaitStandby();
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

const asRole = (url: string, parts: Partial<URL> = {}) =>
  Object.assign(new URL(url), { username: 'inventory_pooled', password: PASSWORD, ...parts }).href;

type Way = (parts?: Partial<URL>) => Promise<string>;
const WAYS: readonly (readonly [name: string, urlOf: Way])[] = [
  ['directly', (parts) => Promise.resolve(asRole(owner.url, parts))],
  [
    'behind PgBouncer',
    async ({ search = '', ...parts } = {}) => `${(await startPooler(asRole(owner.url, parts), 4)).url}${search}`,
  ],
];

interface Run {
  readonly url: string;
  readonly service?: string;
  readonly environment?: NodeJS.ProcessEnv;
}

/** Runs the command. @returns its lines that are not "ok", without the padding */
async function check({ url, service, environment = {} }: Run): Promise<{ code: number | null; lines: string[] }> {
  const args = ['check', ...(service === undefined ? [] : ['--url', service])];
  const { code, stdout, stderr } = environment['NODE_OPTIONS']
    ? await outcomeOf(startInventory(url, args, environment))
    : await inventory(url, args, '', environment);
  expect(stdout + stderr).not.toContain(PASSWORD);
  expect(stdout + stderr).not.toContain(KEY);
  const lines = stdout
    .trimEnd()
    .split('\n')
    .map((line) => line.replaceAll(/ {2,}/g, ' '));
  const faults = lines.filter((line) => line.startsWith('fault ')).length;
  const end = `error: ${faults} of the lines above ${faults === 1 ? 'is a fault' : 'are faults'}\n`;
  expect({ code, stderr }).toEqual(faults === 0 ? { code: 0, stderr: '' } : { code: 1, stderr: end });
  return { code, lines: lines.filter((line) => !line.startsWith('ok ')) };
}

const SOUND = { code: 0, lines: [] };
const matching = (pattern: RegExp): unknown => expect.stringMatching(pattern);

/** Makes a fault. @returns what mends it */
type Fault = () => Promise<() => Promise<unknown>>;
const bySql =
  (make: string, mend: string): Fault =>
  async () => {
    await owner.sql(make);
    return () => owner.sql(mend);
  };

const LAST = String(names.at(-1));
const lostIndex = async () => {
  const setReady = (isReady: boolean) =>
    `UPDATE pg_index SET indisready = ${isReady} WHERE indexrelid = 'inventory_item_pkey'::regclass`;
  await owner.sql(setReady(false));
  await owner.sql(`INSERT INTO inventory_item VALUES (101, 1, 'sold')`);
  await owner.sql(setReady(true));
  return () => owner.sql('REINDEX TABLE inventory_item; DELETE FROM inventory_item WHERE pet_id = 101');
};

const FAULTS: readonly (readonly [name: string, make: Fault, lines: readonly RegExp[]])[] = [
  [
    'a missing right',
    bySql(
      'REVOKE UPDATE ON inventory_item FROM inventory_pooled',
      'GRANT UPDATE ON inventory_item TO inventory_pooled',
    ),
    [
      /^fault rights the role of DATABASE_URL lacks rights; run as \S+ in the database \S+, with search_path = public and lock_timeout = '500ms': GRANT UPDATE ON inventory_item TO inventory_pooled$/,
    ],
  ],
  [
    'functions that the role may not call',
    bySql(
      'REVOKE EXECUTE ON FUNCTION server_life(), stock_witness(text) FROM PUBLIC, inventory_pooled',
      'GRANT EXECUTE ON FUNCTION server_life(), stock_witness(text) TO PUBLIC',
    ),
    [
      /^fault rights .*: GRANT EXECUTE ON FUNCTION server_life\(\) TO inventory_pooled; GRANT EXECUTE ON FUNCTION stock_witness\(text\) TO inventory_pooled$/,
    ],
  ],
  [
    'a function that is gone',
    bySql(
      'ALTER FUNCTION stock_changed_by() RENAME TO renamed; ALTER FUNCTION mark_unrecorded_change() RENAME TO gone',
      'ALTER FUNCTION renamed() RENAME TO stock_changed_by; ALTER FUNCTION gone() RENAME TO mark_unrecorded_change',
    ),
    [
      /^fault functions functions are missing, changed or of another schema: mark_unrecorded_change, stock_changed_by; run "inventory migrate" as the owner of the tables \(in DATABASE_URL\)$/,
      /^fault triggers triggers are off, missing or renamed, .*: CREATE TRIGGER inventory_item_replicated /,
    ],
  ],
  [
    'a pending migration',
    bySql(
      `UPDATE _prisma_migrations SET rolled_back_at = now() WHERE migration_name = '${LAST}'`,
      `UPDATE _prisma_migrations SET rolled_back_at = NULL`,
    ),
    [
      /^fault migrations the database has no inventory tables, or not the newest; if DATABASE_URL names the right database, run "inventory migrate" as the owner of the tables \(in DATABASE_URL\)$/,
      ...['tables', 'functions', 'triggers', 'indexes', 'history'].map((name) =>
        RegExp(`^warn ${name} not looked at: see migrations$`),
      ),
    ],
  ],
  [
    'a function that was replaced',
    async () => {
      await owner.sql(
        `CREATE OR REPLACE FUNCTION record_stock_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$`,
      );
      return async () =>
        expect(await inventory(owner.url, ['migrate'])).toMatchObject({
          stderr:
            'repaired: functions are as migrated again: record_stock_change; "inventory check" names triggers that went with them\nthe database is up to date\n',
        });
    },
    [
      /^fault functions functions are missing, changed or of another schema: record_stock_change; run "inventory migrate" /,
    ],
  ],
  [
    'functions without their rights and settings',
    async () => {
      await owner.sql(
        'ALTER FUNCTION server_life() SECURITY INVOKER; ALTER FUNCTION record_truncated_stock() RESET row_security; ALTER FUNCTION note_pruned_stock_change() RESET search_path',
      );
      return () => inventory(owner.url, ['migrate']);
    },
    [/^fault functions .*: note_pruned_stock_change, record_truncated_stock, server_life; run "inventory migrate" /],
  ],
  [
    'a trigger that is off',
    bySql(
      'ALTER TABLE inventory_item DISABLE TRIGGER inventory_item_history',
      'ALTER TABLE inventory_item ENABLE TRIGGER inventory_item_history',
    ),
    [
      /^fault triggers triggers are off, missing or renamed, .*; rename them back, or run as \S+ in the database \S+, with search_path = public and lock_timeout = '500ms' \(before CREATE, drop one of the same name; meanwhile requests can get 503\): ALTER TABLE inventory_item ENABLE TRIGGER inventory_item_history; then .*$/,
    ],
  ],
  [
    'an index that lacks a pet',
    lostIndex,
    [
      /^fault indexes an index of inventory_item is damaged; run as \S+ in the database \S+, with search_path = public and lock_timeout = '500ms', until it succeeds: REINDEX TABLE inventory_item; meanwhile requests can get 503; pets in the index: 100, in the table: 101, /,
    ],
  ],
  [
    'an index that is not valid',
    bySql(
      `UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'stock_change_id_idx'::regclass`,
      'REINDEX INDEX stock_change_id_idx',
    ),
    [/^fault indexes indexes are missing, damaged or renamed; .*: REINDEX INDEX stock_change_id_idx$/],
  ],
  [
    'an index with other columns',
    bySql(
      'DROP INDEX stock_change_id_idx; CREATE INDEX stock_change_id_idx ON stock_change (id, pet_id)',
      'DROP INDEX stock_change_id_idx; CREATE INDEX stock_change_id_idx ON stock_change USING btree (id)',
    ),
    [/^fault indexes .*: CREATE INDEX stock_change_id_idx ON stock_change USING btree \(id\)$/],
  ],
  [
    'a table that is gone',
    bySql('ALTER TABLE unrecorded_change RENAME TO gone', 'ALTER TABLE gone RENAME TO unrecorded_change'),
    [
      /^warn rights not looked at: see migrations, tables and functions$/,
      /^fault tables somebody dropped or renamed tables: rename them back, or restore a backup; missing: unrecorded_change$/,
      /^fault indexes /,
      /^warn history not looked at: see migrations, tables and functions$/,
    ],
  ],
  [
    'a column without its default',
    bySql(
      'ALTER TABLE stock_change ALTER changed_in DROP DEFAULT',
      'ALTER TABLE stock_change ALTER changed_in SET DEFAULT pg_current_xact_id()',
    ),
    [
      /^fault tables somebody changed the tables; run as \S+ in the database \S+, with search_path = public and lock_timeout = '500ms': ALTER TABLE, until they have this again: stock_change changed_in xid8 NOT NULL pg_current_xact_id\(\); restore a backup only if values are lost$/,
    ],
  ],
  [
    'a sequence whose sessions take many ids at once',
    bySql('ALTER SEQUENCE stock_change_id_seq CACHE 50', 'ALTER TABLE stock_change ALTER id SET CACHE 1'),
    [/^fault tables somebody changed the tables; .*: stock_change id bigint NOT NULL IDENTITY CACHE 1; /],
  ],
  [
    'a history that migrate would mend',
    bySql(
      `INSERT INTO stock_change_pruned VALUES (0, '-infinity')`,
      'DELETE FROM stock_change_pruned WHERE ctid <> (SELECT min(ctid) FROM stock_change_pruned)',
    ),
    [
      /^fault history a restore, .*; run "inventory migrate" as the owner .*; it prints "repaired: stock_change_pruned has one row"$/,
    ],
  ],
  [
    'a standby that is away',
    async () => {
      await replicated.loseStandby();
      return () => replicated.awaitStandby();
    },
    [
      /^fault primary commits wait for a synchronous standby; bring it back, and restart nothing; synchronous_standby_names = \*; standbys needed: 1, connected: 0; commits that wait: 0$/,
    ],
  ],
  [
    'a key about to expire',
    async () => {
      await owner.addKey('x'.repeat(40), { id: 'expiring', expires_at: new Date(Date.now() + 3 * 86_400_000) });
      return () => owner.sql(`DELETE FROM api_key WHERE id = 'expiring'`);
    },
    [
      /^warn keys keys expire within a week; for each, run "inventory keys rotate <id> --overlap 7d --expires <when>", and give the printed key to its client: expiring \(\S+Z\)$/,
    ],
  ],
  [
    'a lock that somebody holds',
    async () => {
      const session = await owner.session(`SET application_name = 'a forgotten window'`, 'LOCK TABLE inventory_item');
      return () => session.end();
    },
    [
      ...['tables', 'triggers', 'indexes'].map((name) =>
        RegExp(`^warn ${name} not looked at: another transaction holds`),
      ),
      /^fault locks sessions lock the tables; .* pg_terminate_backend\(<pid>\): pid \d+ \(a forgotten window, role \S+\) since \S+Z$/,
    ],
  ],
];

describe.each(WAYS.slice(0, HAS_POOLER ? 2 : 1))('inventory check, by the role of the service, %s,', (_, urlOf) => {
  let url: string;
  beforeAll(async () => {
    url = await urlOf();
  });

  it.each(FAULTS)('names %s, and nothing before and after', async (_name, make, lines) => {
    expect(await check({ url })).toEqual(SOUND);
    const mend = await make();
    let isMended = false;
    onTestFinished(async () => {
      if (!isMended) await mend();
    });
    expect((await check({ url })).lines).toEqual(lines.map(matching));
    await mend();
    isMended = true;
    await expect.poll(() => check({ url })).toEqual(SOUND);
  });

  it('names a wrong password and a wrong schema', async () => {
    expect(await check({ url: await urlOf({ password: 'wrong' }) })).toEqual({
      code: 1,
      lines: [matching(/^fault address the database refuses the login: .* \(28P01\); check user and password: /)],
    });
    const { lines } = await check({ url: await urlOf({ search: '?schema=nowhere' }) });
    expect(lines[0]).toMatch(
      /^fault schema the schema of DATABASE_URL is not there, .*: set \?schema=, .*; public has inventory tables$/,
    );
    expect(lines.slice(1)).toEqual(
      lines.slice(1).map(() => matching(/^warn \S+ not looked at: see (schema|migrations)$/)),
    );
  });

  it('names a schema that the role may not use', async () => {
    await owner.sql('REVOKE USAGE ON SCHEMA public FROM PUBLIC');
    onTestFinished(async () => {
      await owner.sql('GRANT USAGE ON SCHEMA public TO PUBLIC');
    });
    const { lines } = await check({ url });
    expect(lines[0]).toMatch(/^fault schema .*, or run GRANT USAGE ON SCHEMA as its owner$/);
  });

  it('is silent on what an operator may add or set', async () => {
    await owner.sql(`
      ALTER INDEX inventory_item_pkey SET (fillfactor = 90); ALTER INDEX stock_change_id_idx SET (fillfactor = 90);
      CREATE UNIQUE INDEX inventory_item_pkey_ccnew ON inventory_item (pet_id);
      UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'inventory_item_pkey_ccnew'::regclass;
      CREATE FUNCTION stock_changed_by(integer) RETURNS integer LANGUAGE sql AS 'SELECT 1'`);
    onTestFinished(async () => {
      await owner.sql(`
        ALTER INDEX inventory_item_pkey RESET (fillfactor); ALTER INDEX stock_change_id_idx RESET (fillfactor);
        DROP INDEX inventory_item_pkey_ccnew; DROP FUNCTION stock_changed_by(integer)`);
    });
    expect(await check({ url })).toEqual(SOUND);
    expect(await inventory(owner.url, ['migrate'])).toMatchObject({ stderr: 'the database is up to date\n' });
  });

  it.each([
    [-600, 'ahead of'],
    [600, 'behind'],
  ])('names a clock of this machine that is %i s off', async (seconds, direction) => {
    const { lines } = await check({ url, environment: withClockAhead(seconds * 1_000) });
    expect(lines).toEqual([
      matching(
        RegExp(
          `^warn clock the clock of the database is (599|600|601) s ${direction} that of this machine; set both by NTP`,
        ),
      ),
    ]);
  });

  it('names a service whose output is on a full disk', async () => {
    const launcher = ['sh', '-c', 'exec "$@" >/dev/full', 'sh'];
    const settings = { DATABASE_URL: url, BOOTSTRAP_API_KEY: `writer-${'k'.repeat(40)}` };
    const service = await ServiceProcess.running(settings, { launcher });
    await withTrigger(
      { sql: (statement) => owner.sql(statement) },
      'BEFORE UPDATE ON inventory_item',
      `RAISE '%', repeat('x', 1000000);`,
    ); // in a log line
    const bearer = { Authorization: `Bearer ${settings.BOOTSTRAP_API_KEY}`, 'Content-Type': 'application/json' };
    const update = { method: 'PATCH', headers: bearer, body: '{"quantity":1}' };
    let found: string[] = [];
    for (let n = 0; n < 100 && found.length === 0; n++) {
      expect((await fetch(`${service.url}/v1/inventory/1`, update)).status).toBe(400);
      if (n > 16) found = (await check({ url: url, service: service.url, environment: WITH_KEY })).lines;
    }
    expect(found).toEqual([
      matching(
        /^warn service ready, but lost \d+ log lines since its start: make room on the disk of its log, or restart its reader; this line stays until the service restarts$/,
      ),
    ]);
  });

  // Updates of the service do not wait for an idle one; SQL of others waits for one at work.
  it.each(['is idle', 'is at work'])('names who holds a row that others want, and %s', async (state) => {
    const gate = await owner.session('SELECT pg_advisory_lock(7)');
    const holder = await owner.session('SELECT FROM inventory_item WHERE pet_id = 7 FOR UPDATE');
    const others = state === 'is idle' ? [] : [holder, await owner.session()];
    const statements = ['SELECT pg_advisory_lock(7)', 'UPDATE inventory_item SET quantity = 1 WHERE pet_id = 7'];
    const work = others.map((session, at) => session.query(statements[at] ?? ''));
    await expect
      .poll(async () => (await check({ url })).lines)
      .toEqual([matching(/^fault locks sessions lock the tables; .*: pid \d+ \(, role \S+\) since \S+Z$/)]);
    await gate.end();
    await work[0];
    await holder.end();
    await Promise.all(work);
    await expect.poll(() => check({ url })).toEqual(SOUND);
  });
});

it('inventory check names a file that PostgreSQL has lost, and goes on', async () => {
  const sql = `SELECT pg_relation_filepath('stock_change_pkey') AS path`;
  const [{ path }] = (await owner.sql(sql)) as [{ path: string }];
  await owner.sql('CHECKPOINT');
  const run = (command: string) => owner.sql(`COPY (SELECT) TO PROGRAM 'cat; ${command}'`); // in its data directory
  await run(`mv ${path} ${path}.away`);
  const found = await check({ url: asRole(owner.url) });
  await run(`mv ${path}.away ${path}`);
  expect(found.lines).toEqual([matching(/^fault history .*\(58P01\)$/)]);
});

describe('inventory check --url', () => {
  const url = () => asRole(owner.url);

  it('says that the service is ready, with its version if there is a key', async () => {
    const service = await ServiceProcess.running({ DATABASE_URL: url() });
    const last = async (env = {}) =>
      (await inventory(url(), ['check', '--url', service.url], '', env)).stdout.trimEnd().split('\n').at(-1);
    expect(await last()).toMatch(/^ok {4}service {4}ready; INVENTORY_KEY is not set/);
    expect(await last(WITH_KEY)).toBe(`ok    service    ready, version ${packageFile.version}, no log lines lost`);
    const ofClients = await inventory(url(), ['check', '--url', `${service.url}/v1`]);
    expect(ofClients.stdout).toMatch(/^fault service {4}health\/ready is 404 at this address: .*without \/v1$/m);
    expect(await last({ INVENTORY_KEY: 'k'.repeat(40) })).toMatch(
      /^warn {2}service {4}not looked at: .*metrics is 401/,
    );
    await owner.sql('REVOKE UPDATE ON inventory_item FROM inventory_pooled');
    onTestFinished(async () => {
      await owner.sql('GRANT UPDATE ON inventory_item TO inventory_pooled');
    });
    expect(await last()).toMatch(
      /^fault service {4}not ready \(503\): The database cannot be used at the moment\. Its log/,
    );
    await service.terminate();
    expect(await last()).toMatch(/^fault service {4}no answer from the service \(ECONNREFUSED\)/);
    expect(await inventory('', ['check', '--url', service.url])).toMatchObject({ code: 1 });
    expect((await inventory(url(), ['check', '--url', 'localhost:3000'])).code).toBe(2);
  });

  it('reads the metrics even if the database is away, and follows no other server', async () => {
    const service = await ServiceProcess.running({ DATABASE_URL: url() });
    const paths: (string | undefined)[] = [];
    const moved = createHttpServer(({ url: path }, answer) => {
      paths.push(path);
      answer.writeHead(302, { Location: `${service.url}/health/ready` }).end();
    });
    onTestFinished(() => void moved.close());
    await once(moved.listen(0, '127.0.0.1'), 'listening');
    const last = async (serviceUrl: string) =>
      (await inventory('postgresql://a@127.0.0.1:1/b', ['check', '--url', serviceUrl], '', WITH_KEY)).stdout
        .trimEnd()
        .split('\n')
        .at(-1);
    expect(await last(service.url)).toBe(`ok    service    ready, version ${packageFile.version}, no log lines lost`);
    expect(await last(`http://127.0.0.1:${(moved.address() as AddressInfo).port}/behind/a-proxy`)).toMatch(
      /^fault service {4}no answer from the service \(unexpected redirect\)/,
    );
    expect(paths).toEqual(['/behind/a-proxy/health/ready']);
  });
});

it.each([
  ['/metrics', 200],
  ['/health/ready', 503],
])('inventory check reads no more than 1 MB of %s', async (endless, status) => {
  const server = createHttpServer(({ url: path }, answer) => {
    if (path !== endless) return answer.end();
    const write = (): unknown => answer.write('x'.repeat(65_536), (error) => error ?? write());
    answer.writeHead(status);
    return write();
  });
  onTestFinished(() => void server.close());
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const service = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  expect((await check({ url: asRole(owner.url), service, environment: WITH_KEY })).lines).toEqual([
    matching(/^fault service no answer from the service \(its response is longer than 1 MB\)/),
  ]);
});

it('inventory check names a database that takes no writes, and a role whose commits do not last', async () => {
  const url = asRole(owner.url);
  onTestFinished(async () => {
    await owner.sql('ALTER ROLE inventory_pooled RESET default_transaction_read_only');
    await owner.sql('ALTER ROLE inventory_pooled RESET synchronous_commit');
  });
  await owner.sql('ALTER ROLE inventory_pooled SET synchronous_commit = off');
  expect((await check({ url })).lines).toEqual([
    matching(/^warn primary .* as a superuser, run ALTER ROLE inventory_pooled SET synchronous_commit = on$/),
  ]);
  await owner.sql('ALTER ROLE inventory_pooled SET default_transaction_read_only = on');
  expect((await check({ url })).lines[0]).toMatch(
    /^fault primary default_transaction_read_only is on by "user"; ask first who stopped writes, .*; only then, as a superuser, run SET default_transaction_read_only = off; ALTER ROLE, ALTER DATABASE or /,
  );
});

it('inventory check says what a role without rights of its own may not see', async () => {
  await owner.sql(
    'REVOKE pg_read_all_stats FROM inventory_pooled; REVOKE SELECT ON stock_change_id_seq FROM inventory_pooled',
  );
  const mend = 'GRANT pg_read_all_stats TO inventory_pooled; GRANT SELECT ON stock_change_id_seq TO inventory_pooled';
  onTestFinished(async () => {
    await owner.sql(mend);
  });
  expect(await check({ url: asRole(owner.url) })).toEqual({
    code: 0,
    lines: [
      matching(
        /^warn primary not looked at: as a superuser, run GRANT pg_read_all_stats TO inventory_pooled, or look: in pg_stat_replication, 1 must have the sync_state sync or quorum$/,
      ),
      matching(/^warn history not looked at: run as .*: GRANT SELECT ON stock_change_id_seq TO inventory_pooled$/),
    ],
  });
});

it.each([
  ['pg_cancel_backend', /^warn indexes not looked at: a second is too short for all pets; the service audits /],
  ['pg_terminate_backend', /^fault address /],
])('inventory check says what to do when %s ends the statement that reads all pets', async (end, line) => {
  const session = await owner.session('LOCK TABLE inventory_item'); // so that it waits to be ended
  const outcome = check({ url: asRole(owner.url) });
  const endStatement = `SELECT ${end}(pid) FROM pg_stat_activity WHERE application_name = 'inventory check'
    AND wait_event_type = 'Lock' AND query LIKE 'SET LOCAL transaction_read_only = on;%TABLESAMPLE%'`;
  await expect.poll(() => owner.sql(endStatement)).toHaveLength(1);
  expect((await outcome).lines).toContainEqual(matching(line));
  await session.end();
});

it('inventory check writes nothing: no transaction of it gets an id', async () => {
  const nextId = async () => (await owner.sql('SELECT pg_snapshot_xmax(pg_current_snapshot())'))[0];
  const isSame = async () => {
    const before = await nextId();
    await check({ url: owner.url });
    return isDeepStrictEqual(before, await nextId()); // autovacuum may come between
  };
  await expect.poll(isSame).toBe(true);
});

it('inventory check names settings that cannot work, and a database that does not answer', async () => {
  const silent = createServer().listen(0, '127.0.0.1');
  onTestFinished(() => void silent.close());
  await once(silent, 'listening');
  const { port } = silent.address() as AddressInfo;
  for (const [url, words] of [
    ['', /^fault address DATABASE_URL must be .*; PORT must be /],
    [`postgresql://a@127.0.0.1:${port}/b`, /^fault address the database did not answer in time; check DATABASE_URL/],
  ] as const)
    expect(await check({ url, environment: { PORT: url ? '1' : 'x' } })).toEqual({ code: 1, lines: [matching(words)] });
});
