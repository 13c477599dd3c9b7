import { setTimeout as pause } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { inventory, printed } from '../commands/inventory-command.ts';
import { type FaultyPostgres, startFaultyPostgres } from '../support/postgres-server.ts';
import { CSV_HEADER, listText } from '../support/stock.ts';
import { type NamedService, expectLists, presentSnapshot, startEveryService, untilQuiet } from './services.ts';

let postgres: FaultyPostgres;
let services: NamedService[];

beforeAll(async () => {
  postgres = await startFaultyPostgres();
  // Otherwise PostgreSQL writes to disk in the background, and others than the tests use up transaction ids.
  const lazy = [`wal_writer_delay = '10s'`, `wal_writer_flush_after = '1GB'`, 'autovacuum = off'];
  await postgres.database.setSystem(...lazy.map((setting) => `SET ${setting}`));
  await postgres.database.set('synchronous_commit', 'off');
  services = await startEveryService({ databaseUrl: postgres.url });
});

const sql = (statement: string) => postgres.database.sql(statement);

/** Kills the server, or one session of it, after which PostgreSQL recovers as after a crash of the server. */
async function crash(what: string): Promise<void> {
  if (what === 'server') {
    await postgres.crash();
    await postgres.restart();
    return;
  }
  // NaN fails; 0 would kill the whole process group of this test.
  const [{ pid } = { pid: NaN }] = await postgres.database.sql<{ pid: number }>(
    `SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'inventory %' LIMIT 1`,
  );
  process.kill(pid, 'SIGKILL');
  await pause(200); // until PostgreSQL has seen it; only its log would show that
  await expect.poll(() => sql('SELECT 1').catch(() => [])).toHaveLength(1);
}

describe('an acknowledged update', () => {
  it('outlives a crash although synchronous_commit is off in the database', async () => {
    await postgres.database.stock(...services.flatMap((_, at) => [[2 * at, 0] as const, [2 * at + 1, 0] as const]));
    const quantities = Array.from({ length: 10 }, (_, at) => at + 1);
    const setAll = async ({ name, update }: NamedService, at: number) => {
      for (const quantity of quantities) {
        const together = [1_000, 2_000].map((more) => update(2 * at + 1, more + quantity));
        const responses = await Promise.all([update(2 * at, quantity), ...together]);
        expect([name, ...responses.map(({ status }) => status)]).toEqual([name, 200, 200, 200]);
      }
    };
    await Promise.all(services.map(setAll));
    await crash('server');
    const written = await sql(
      `SELECT array_agg(quantity_after ORDER BY id) AS quantities FROM stock_change
        WHERE request_id IS NOT NULL GROUP BY pet_id ORDER BY pet_id`,
    );
    expect(written.map((row) => row['quantities'])).toEqual(
      services.flatMap(() => [quantities, expect.objectContaining({ length: 2 * quantities.length }) as number[]]),
    );
  });
});

describe('an import, a new key and a revocation', () => {
  it('outlive a crash although synchronous_commit is off in the database', async () => {
    await sql(`TRUNCATE inventory_item; INSERT INTO inventory_item VALUES (1, 1, 'available')`);
    await postgres.database.addKey('psk_old');
    await sql('CHECKPOINT');
    const run = (...args: string[]) => inventory(postgres.url, args, `${CSV_HEADER}1,2,sold\n`);
    // Each is followed by a crash: a later commit that waits for the disk would bring an earlier one there.
    expect(await run('import', '-', '--quiet')).toEqual(printed());
    await crash('server');
    expect(await sql('SELECT quantity FROM inventory_item')).toEqual([{ quantity: 2 }]);
    expect((await run('keys', 'create', '--name', 'new')).code).toBe(0);
    await crash('server');
    expect(await sql(`SELECT name FROM api_key WHERE name = 'new'`)).toEqual([{ name: 'new' }]);
    expect((await run('keys', 'revoke', 'psk_old')).code).toBe(0);
    await crash('server');
    expect(await sql(`SELECT revoked_at IS NOT NULL AS revoked FROM api_key WHERE id = 'psk_old'`)).toEqual([
      { revoked: true },
    ]);
  });
});

describe('a list after a crash', () => {
  it.each(['server', 'session that unlogged tables survive'])(
    'is none from before the crash of a %s, although the snapshot reads the same',
    async (what) => {
      if (what.includes('survive')) await sql('ALTER TABLE server_life_token SET LOGGED');
      await sql('TRUNCATE inventory_item');
      await postgres.database.stock([1, 7]);
      await untilQuiet(postgres.database, services, listText([1, 7]));
      await sql('CHECKPOINT');
      await sql('BEGIN; SELECT pg_current_xact_id(); ROLLBACK');
      await expectLists(services, listText([1, 7]));
      const before = await presentSnapshot(postgres.database);
      await crash(what);
      await sql('UPDATE inventory_item SET quantity = 8');
      expect(await presentSnapshot(postgres.database)).toBe(before); // the trap is set
      await expectLists(services, listText([1, 8]));
    },
  );
});
