import { setTimeout as pause } from 'node:timers/promises';
import type { Client } from 'pg';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { SeededRandom } from '../support/seeded-random.ts';
import { type FaultyPostgres, startFaultyPostgres } from '../support/postgres-server.ts';
import { startService } from '../support/service.ts';
import { CSV_HEADER } from '../support/stock.ts';
import { changeOf, Follower, HISTORY_AS_JSON, STALLED_MS } from './follower.ts';
import { IMPORT_CSV, inventory } from './inventory-command.ts';

/** How long the writers write. */
const WRITING_MS = Number(process.env['FEED_SECONDS'] ?? 2) * 1_000;
const PETS = 2_000;
const SQL_WRITERS = 5;

describe('inventory history --follow', { timeout: WRITING_MS + 150_000 }, () => {
  let server: FaultyPostgres;
  beforeAll(async () => {
    server = await startFaultyPostgres();
  });

  it('prints every change of every writer once and in order, through kills and a crash of PostgreSQL', async () => {
    const service = await startService({ databaseUrl: server.url });
    await service.stock(...Array.from({ length: PETS }, (_, petId) => [petId, 0] as const));
    const random = new SeededRandom(20261121);
    let writing = true;

    /** Connects again after the crash of PostgreSQL. */
    async function whileWriting(work: (client: Client) => Promise<unknown>): Promise<void> {
      do {
        try {
          const client = await server.database.session();
          try {
            while (writing) await work(client);
          } finally {
            await client.end();
          }
        } catch {
          await pause(50); // the server is down
        }
      } while (writing);
    }
    /** One transaction in ten is rolled back. */
    function writeSql(longestMs: number): Promise<void> {
      return whileWriting(async (client) => {
        const pet = random.between(0, PETS - 1);
        await client.query('BEGIN');
        await client.query('UPDATE inventory_item SET quantity = quantity + 1 WHERE pet_id = $1', [pet]);
        await pause(random.next() * longestMs); // a transaction that stays open
        await client.query(random.chance(0.1) ? 'ROLLBACK' : 'COMMIT');
      });
    }
    async function writeByService(seed: number): Promise<void> {
      for (let turn = seed; writing; turn++) {
        await service.update(turn % PETS, turn).catch(() => undefined);
        await pause(20); // its pace
      }
    }
    async function writeByImport(): Promise<void> {
      for (let turn = 0; writing; turn++) {
        const pets = Array.from({ length: 400 }, (_, at) => `${PETS + at},${at + turn},available\n`);
        await inventory(server.url, IMPORT_CSV, CSV_HEADER + pets.join(''));
        await pause(400); // its pace
      }
    }

    /** A control: this reader does not wait for transactions that began earlier, and must lose a change. */
    const seen = [0];
    function readNaively(): Promise<void> {
      return whileWriting(async (client) => {
        const newer = 'SELECT id::int FROM stock_change WHERE id > $1 ORDER BY id';
        const { rows } = await client.query<{ id: number }>(newer, [seen.at(-1)]);
        seen.push(...rows.map(({ id }) => id));
        await pause(20); // its pace
      });
    }

    const printed: string[] = [];
    const lastId = () => changeOf(printed.at(-1) ?? '{"id":0}').id;
    /** Runs a follower, which begins where the previous one was killed. */
    async function followUntil(done: (follower: Follower) => Promise<unknown>): Promise<void> {
      const follower = new Follower(server.url, '--after', String(lastId()));
      await done(follower);
      await follower.end('SIGKILL');
      printed.push(...follower.lines);
    }
    async function followAndKill(): Promise<void> {
      while (writing) {
        await followUntil(async (follower) => {
          const hasBegun = () => follower.lines.length > 0 || follower.child.exitCode !== null || !writing;
          await vi.waitUntil(hasBegun, { timeout: STALLED_MS });
          await pause(random.next() * Math.min(3_000, WRITING_MS / 3)); // it is killed at any time
        });
      }
    }

    const underWay = [
      ...Array.from({ length: SQL_WRITERS }, () => writeSql(50)),
      ...Array.from({ length: SQL_WRITERS }, () => writeSql(1_000)), // a follower reads many times meanwhile
      ...[1, 2, 3, 4].map((seed) => writeByService(seed * 37)),
      writeByImport(),
      readNaively(),
      followAndKill(),
    ];
    await pause(WRITING_MS / 2); // the writers write
    await server.crash();
    await pause(500); // all of them meet a server that is down
    await server.restart();
    await pause(WRITING_MS / 2); // the writers write
    const late = await server.database.session(`INSERT INTO inventory_item VALUES (5000001, 0, 'sold')`);
    const { rows } = await late.query<{ id: number }>('SELECT id::int FROM stock_change WHERE pet_id = 5000001');
    const lateId = rows[0]?.id ?? expect.fail();
    await vi.waitUntil(() => (seen.at(-1) ?? 0) > lateId, { timeout: STALLED_MS });
    await late.query('COMMIT');
    writing = false;
    await Promise.all(underWay);
    const history = (await server.database.sql<{ line: string }>(HISTORY_AS_JSON)).map(({ line }) => line);
    const hasAll = (follower: Follower) => [...printed, ...follower.lines].at(-1) === history.at(-1);
    await followUntil((follower) => vi.waitUntil(() => hasAll(follower), { timeout: 100_000 }));

    const ids = history.map((line) => changeOf(line).id);
    const printedIds = new Set(printed.map((line) => changeOf(line).id));
    expect(ids.filter((id) => !printedIds.has(id))).toEqual([]);
    expect(printed).toEqual(history);
    expect([ids.includes(lateId), seen.includes(lateId)]).toEqual([true, false]);
  });

  // The command waits 35 s for an answer.
  it.each(process.env['FEED_SECONDS'] ? ['is down', 'is frozen'] : ['is down'])(
    'waits while PostgreSQL %s, prints one message, and continues',
    async (outage) => {
      const isDown = outage === 'is down';
      const pet = isDown ? 1_000_000 : 1_000_001;
      await server.database.sql(`INSERT INTO inventory_item VALUES (${pet}, 1, 'sold')`);
      const follower = new Follower(server.url, '--limit', '1');
      await follower.prints(1);
      if (isDown) await server.stop();
      else server.freeze();
      await vi.waitUntil(() => follower.errors !== '', { timeout: STALLED_MS });
      await pause(1_500); // the command tries again meanwhile
      if (isDown) await server.restart();
      else server.thaw();
      await server.database.sql(`UPDATE inventory_item SET quantity = 2 WHERE pet_id = ${pet}`);
      await follower.prints(2);
      expect(follower.lines.map((line) => changeOf(line).quantityAfter)).toEqual([1, 2]);
      expect(await follower.end('SIGTERM')).toBe(0);
      const reason = isDown ? '.*' : 'the database did not answer in time; check DATABASE_URL and the database';
      expect(follower.errors).toMatch(new RegExp(`^${reason}; waiting for it\nthe database answers again\n$`));
    },
  );

  it('waits for an earlier transaction that is prepared meanwhile, as an export of that moment does, but for no later one', async () => {
    const { database } = server;
    await database.setSystem('SET max_prepared_transactions = 5');
    await server.stop();
    await server.restart();
    await database.sql(`INSERT INTO inventory_item VALUES (2000001, 0, 'sold'), (2000002, 0, 'sold')`);
    const follower = new Follower(server.url, '--limit', '1');
    await follower.prints(1);
    const early = await database.session('UPDATE inventory_item SET quantity = 1 WHERE pet_id = 2000001');
    await database.sql(`UPDATE inventory_item SET quantity = 1 WHERE pet_id = 2000002`);
    const exported = inventory(server.url, ['export', '--at', '0s']);
    await pause(1_500); // both now wait for the earlier transaction
    await early.query(`PREPARE TRANSACTION 'order'`);
    await early.end();
    await pause(1_500); // they would print too early by now
    expect(follower.lines).toHaveLength(1);
    await database.sql(`BEGIN; INSERT INTO inventory_item VALUES (2000003, 0, 'sold'); PREPARE TRANSACTION 'later'`);
    await database.sql(`COMMIT PREPARED 'order'`);
    await follower.prints(3);
    expect((await exported).stdout).toContain('\n2000001,1,sold\n');
    await database.sql(`ROLLBACK PREPARED 'later'`);
    expect(follower.lines.slice(1).map((line) => changeOf(line).petId)).toEqual([2000001, 2000002]);
    await follower.end('SIGTERM');
  });
});
