import { beforeAll, describe, expect, it, vi } from 'vitest';
import { CSV_HEADER, IMPORT_CSV, inventory } from './commands/inventory-command.ts';
import { InventoryService } from '../src/inventory/inventory.service.ts';
import { type Database, createDatabaseOn } from './support/database.ts';
import { startFaultyPostgres, startReplicated } from './support/postgres-server.ts';
import { type TestService, startService } from './support/service.ts';

async function setQuantity(service: TestService, petId: number, quantity: number): Promise<string> {
  const { status, text } = await service.update(petId, quantity, [['X-Request-Id', `q${quantity}`]]);
  return (JSON.parse(text) as { code?: string }).code ?? String(status);
}

/** The quantities that requests have set a pet to, by its history. */
async function updatedTo(database: Database, petId: number): Promise<number[]> {
  const rows = await database.sql<{ quantity: number }>(
    `SELECT quantity_after AS quantity FROM stock_change WHERE request_id IS NOT NULL AND pet_id = $1 ORDER BY id`,
    [petId],
  );
  return rows.map(({ quantity }) => quantity);
}

describe('an acknowledged PATCH /v1/inventory/:petId', () => {
  it('outlives a crash although synchronous_commit is off in the database', async () => {
    const postgres = await startFaultyPostgres();
    const { database } = postgres;
    // Otherwise PostgreSQL writes the updates to disk in the background.
    const lazy = [`wal_writer_delay = '10s'`, `wal_writer_flush_after = '1GB'`, 'autovacuum = off'];
    await database.setSystem(...lazy.map((setting) => `SET ${setting}`));
    await database.set('synchronous_commit', 'off');
    const service = await startService({ databaseUrl: postgres.url });
    await service.stock([1, 0], [2, 0]);
    const quantities = Array.from({ length: 30 }, (_, at) => at + 1);
    for (const quantity of quantities) {
      expect(await setQuantity(service, 1, quantity)).toBe('200');
      const together = [1_000, 2_000].map((more) => setQuantity(service, 2, more + quantity));
      expect(await Promise.all(together)).toEqual(['200', '200']);
    }
    await postgres.crash();
    await postgres.restart();
    expect(await updatedTo(database, 1)).toEqual(quantities);
    expect(await updatedTo(database, 2)).toHaveLength(60);
  });
});

describe('PATCH /v1/inventory/:petId whose outcome is unknown', () => {
  it('is not executed later, when PostgreSQL reads it', async () => {
    const postgres = await startFaultyPostgres();
    const { database } = postgres;
    const service = await startService({ databaseUrl: postgres.url, settings: { FAST: 'on' } });
    await service.stock([1, 0]);
    expect(await setQuantity(service, 1, 1)).toBe('200');
    const [{ pid } = {}] = await database.sql<{ pid: number }>(
      `SELECT pid FROM pg_stat_activity WHERE application_name = 'inventory updates'`,
    );
    process.kill(Number(pid), 'SIGSTOP');
    expect(await setQuantity(service, 1, 2)).toBe('outcome_unknown');
    expect(await setQuantity(service, 1, 3)).toBe('200');
    process.kill(Number(pid), 'SIGCONT');
    await expect.poll(() => database.sql(`SELECT FROM pg_stat_activity WHERE pid = ${pid}`)).toEqual([]);
    expect(await updatedTo(database, 1)).toEqual([1, 3]);
  });
});

describe('PATCH /v1/inventory/:petId with a synchronous standby', { timeout: 120_000 }, () => {
  let replicated: Awaited<ReturnType<typeof startReplicated>>;
  let service: TestService;
  const onPrimary = (statement: string) => replicated.primary.sql(statement);
  const held = (name = '%') =>
    onPrimary(
      `SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name LIKE 'inventory ${name}'`,
    );

  beforeAll(async () => {
    replicated = await startReplicated();
    await onPrimary(`INSERT INTO inventory_item SELECT n, 0, 'available' FROM generate_series(1, 100) n`);
    // The service needs the warning of an unconfirmed commit, and must set its level by itself.
    await onPrimary(`ALTER DATABASE postgres SET client_min_messages = error`);
    await replicated.primary.setSystem(`SET synchronous_standby_names = '*'`);
    const synchronous = () => onPrimary(`SELECT FROM pg_stat_replication WHERE sync_state = 'sync'`);
    await vi.waitUntil(async () => (await synchronous()).length === 1, { timeout: 15_000 });
    service = await startService({ databaseUrl: replicated.primary.url, settings: { REQUEST_DEADLINE_MS: '1000' } });
  });

  async function loseStandby(): Promise<void> {
    await replicated.standby.setSystem(`SET primary_conninfo = ''`);
    await expect.poll(() => onPrimary('SELECT FROM pg_stat_replication')).toHaveLength(0);
  }
  async function cancelHeld(name?: string): Promise<void> {
    await expect.poll(() => held(name)).toHaveLength(1);
    await onPrimary(`SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`);
  }
  const findStandby = () => replicated.standby.setSystem(`SET primary_conninfo = '${replicated.primary.url}'`);

  it('makes every command fail whose commit the standby did not confirm', async () => {
    const run = (args: readonly string[], input?: string) => inventory(replicated.primary.url, args, input);
    const created = await run(['keys', 'create', '--name', 'till']);
    const id = /^key (\S+)/.exec(created.stderr)?.[1] ?? '';
    expect(await setQuantity(service, 1, 4)).toBe('200'); // for the history
    await loseStandby();
    const key = /^psk_\w+\n$/;
    for (const [args, stdout] of [
      [['keys', 'create', '--name', 'shop'], key],
      [['keys', 'rotate', id], key],
      [['keys', 'revoke', id], /^$/],
      [['history', 'prune', '--before', '0s'], /^$/],
      [[...IMPORT_CSV, '--quiet'], /^$/],
    ] as const) {
      const finished = run(args, `${CSV_HEADER}1,7,sold\n`);
      await cancelHeld(args[0]);
      const { code, stderr, ...shown } = await finished;
      expect({ args, code, ...shown }).toEqual({ args, code: 1, stdout: expect.stringMatching(stdout) as string });
      expect(stderr).toMatch(
        /(^|\n)error: committed here, but not confirmed by the synchronous standby: a failover may lose it\n$/,
      );
    }
    await findStandby();
    const rows = await onPrimary('SELECT id FROM api_key WHERE revoked_at IS NOT NULL');
    expect(rows).toEqual([{ id }]);
    await expect.poll(() => setQuantity(service, 1, 3)).toBe('200');
  });

  it('gives no history cursor on the standby, which has no locks of the writers', async () => {
    const stderr = 'error: the database takes no writes: it is a standby, or default_transaction_read_only is on\n';
    const cursor = ['history', 'cursor'];
    expect(await inventory(replicated.standby.url, cursor)).toEqual({ code: 1, stdout: '', stderr });
  });

  it('lets at most five sessions wait for a lost standby, and refuses further updates until it is back', async () => {
    await onPrimary('UPDATE api_key SET last_used_at = NULL');
    await onPrimary(`CREATE ROLE shop LOGIN SUPERUSER PASSWORD 'shop'`);
    const ofShop = Object.assign(new URL(replicated.primary.url), { username: 'shop', password: 'shop' });
    const { url: another } = await createDatabaseOn(replicated.primary.url);
    // Neither counts what is held of another store or another role.
    const uncounted = await Promise.all([another, ofShop.href].map((databaseUrl) => startService({ databaseUrl })));
    await uncounted[0]?.stock([98, 0]);
    const patient = await startService({ databaseUrl: replicated.primary.url, key: service.key });
    await loseStandby();
    const hold = async (name: string) => {
      const session = await replicated.primary.session();
      await session.query(`SET application_name = '${name}'`);
      void session.query(`SELECT pg_logical_emit_message(true, '', '')`).catch(() => undefined); // ends with the test
    };
    for (let n = 0; n < 4; n++) await hold('inventory updates');
    await expect.poll(() => held('updates')).toHaveLength(4);
    const waited = setQuantity(patient, 1, 900);
    await expect.poll(() => held('updates')).toHaveLength(5); // commits count as held only once they have waited for most of the deadline
    await onPrimary(`SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`);
    expect(await waited).toBe('outcome_unknown');
    for (let n = 0; n < 4; n++) await hold('psql');
    const late = await startService({ databaseUrl: replicated.primary.url, key: service.key });
    expect((await late.list()).status).toBe(200);
    await expect.poll(() => onPrimary('SELECT FROM api_key WHERE last_used_at IS NOT NULL')).toHaveLength(1); // waits for nobody
    const codes: string[] = [];
    let most = 0;
    const from = 1_000;
    for (let quantity = from; codes.slice(-5).join() !== Array(5).fill('service_unavailable').join(); quantity++) {
      codes.push(await setQuantity(service, 2 + codes.length, quantity)); // another pet each time: a waiting commit locks its row
      most = Math.max(most, (await held()).length);
      expect(codes.length).toBeLessThan(30);
    }
    expect(most).toBeLessThanOrEqual(5);
    expect(new Set(codes)).toEqual(new Set(['outcome_unknown', 'service_unavailable']));
    const metrics = await fetch(`${service.url}/metrics`, { headers: { authorization: `Bearer ${service.key}` } });
    expect(/^inventory_held_commits (\d+)$/m.exec(await metrics.text())?.[1]).toMatch(/^[45]$/);
    const heldUpdates = `FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'inventory updates'`;
    await onPrimary(`SELECT pg_cancel_backend(pid) FROM (SELECT pid ${heldUpdates} OFFSET 3) AS more`);
    await expect.poll(() => held()).toHaveLength(3);
    await expect.poll(() => setQuantity(service, 90, 902)).toBe('outcome_unknown');
    const old = `SELECT ${heldUpdates} AND query_start < clock_timestamp() - interval '1 s'`;
    await expect.poll(() => onPrimary(old)).toHaveLength(4);
    const update = {
      petId: 1n,
      quantity: 1,
      ifMatch: null,
      changedBy: 'key:test',
      idempotencyKey: null,
      requestId: 'r',
      reason: null,
    };
    const direct = () => service.app.get(InventoryService).setQuantity(update, performance.now() + 1_000);
    await expect
      .poll(() => direct().catch((error: unknown) => (error as Error).message))
      .toBe('sessions that were given up still wait for the synchronous standby');
    expect(await held()).toHaveLength(4);
    const before = (await held()).length;
    const others = Promise.all(uncounted.map((each, at) => setQuantity(each, 98 + at, 1)));
    await expect.poll(held).toHaveLength(before + uncounted.length);

    await findStandby();
    await others;
    await expect.poll(() => setQuantity(service, 1, 5_000)).toBe('200');
    const rows = await onPrimary('SELECT request_id FROM stock_change WHERE request_id IS NOT NULL');
    const written = rows.map((row) => String(row['request_id']));
    const refused = codes.flatMap((code, at) => (code === 'service_unavailable' ? [`q${from + at}`] : []));
    expect(written.filter((id) => refused.includes(id))).toEqual([]);
  });
});
