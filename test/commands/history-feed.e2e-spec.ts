import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text as textOf } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import type { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { SeededRandom } from '../../faults/seeded-random.ts';
import { type FaultyPostgres, startFaultyPostgres } from '../support/postgres-server.ts';
import { startService } from '../support/service.ts';
import { inventory, inventoryCommand, startInventory } from './inventory-command.ts';
import { openStore, type Store } from './store.ts';

/** How long the writers of the proof write; the project `feed` takes 30 s. */
const WRITING_MS = Number(process.env['FEED_SECONDS'] ?? 5) * 1_000;
const PETS = 2_000;
const SQL_WRITERS = 10;
/** More than the 35 s after which the command gives an answer up. */
const STALLED_MS = 45_000;

/** The history as `--json` writes it, by SQL rather than by the command. */
const HISTORY_AS_JSON = `
  SELECT '{"petId":' || pet_id || ',"id":' || id || ',"quantityBefore":' || coalesce(quantity_before::text, 'null')
         || ',"quantityAfter":' || coalesce(quantity_after::text, 'null')
         || ',"statusBefore":' || coalesce('"' || status_before || '"', 'null')
         || ',"statusAfter":' || coalesce('"' || status_after || '"', 'null')
         || ',"changedAt":"' || to_char(changed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
         || '","changedBy":' || to_json(changed_by) || ',"requestId":' || coalesce(to_json(request_id)::text, 'null')
         || ',"idempotencyKey":' || coalesce(to_json(idempotency_key)::text, 'null') || '}' AS line
    FROM stock_change`;

/** A follower whose whole lines are kept, as a consumer would keep them. */
interface Follower {
  readonly child: ChildProcess;
  readonly lines: string[];
  readonly arrivals: Map<string, number>;
  errors: string;
}

function follow(url: string, ...args: string[]): Follower {
  const child = startInventory(url, ['history', '--follow', '--json', ...args]);
  const follower: Follower = { child, lines: [], arrivals: new Map(), errors: '' };
  let rest = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    const [...whole] = (rest + chunk).split('\n');
    rest = whole.pop() ?? '';
    for (const line of whole) follower.arrivals.set(idOf(line), Date.now());
    follower.lines.push(...whole);
  });
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => (follower.errors += chunk));
  return follower;
}

function idOf(line: string): string {
  return /"id":(\d+)/.exec(line)?.[1] ?? '';
}

/** On a busy machine the command alone takes seconds to start. */
function untilPrinted(follower: Follower, count: number) {
  return expect.poll(() => follower.lines, { timeout: STALLED_MS }).toHaveLength(count);
}

async function end({ child }: Follower, signal: NodeJS.Signals): Promise<number | null> {
  if (child.exitCode === null) {
    child.kill(signal);
    await once(child, 'close');
  }
  return child.exitCode;
}

/** When the last statement of each session of the command began, where the condition holds. */
function historySessions(store: Store, condition = 'true') {
  return store.sql<{ at: string }>(
    `SELECT query_start::text AS at FROM pg_stat_activity
      WHERE datname = current_database() AND application_name = 'inventory history' AND ${condition}`,
  );
}

describe('inventory history --follow', () => {
  let server: FaultyPostgres;
  beforeAll(async () => {
    server = await startFaultyPostgres();
  });
  afterAll(() => server.remove());

  it(
    'prints every change of every writer once and in order, though it is killed and PostgreSQL restarted',
    { timeout: WRITING_MS + 150_000 },
    async () => {
      const service = await startService({ databaseUrl: server.url });
      await service.stock(...Array.from({ length: PETS }, (_, petId) => [petId, 0] as const));
      let writing = true;
      const random = new SeededRandom(20261121);

      /** On one connection after another, for the restart ends them. */
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
            await pause(50);
          }
        } while (writing);
      }
      /** A tenth of the transactions is rolled back. */
      function writeSql(longestMs: number): Promise<void> {
        return whileWriting(async (client) => {
          const pet = Math.floor(random.next() * PETS);
          await client.query('BEGIN');
          await client.query('UPDATE inventory_item SET quantity = quantity + 1 WHERE pet_id = $1', [pet]);
          await pause(random.next() * longestMs);
          await client.query(random.next() < 0.1 ? 'ROLLBACK' : 'COMMIT');
        });
      }
      async function writeByService(seed: number): Promise<void> {
        for (let turn = seed; writing; turn++) await service.update(turn % PETS, turn).catch(() => undefined);
      }
      async function writeByImport(): Promise<void> {
        for (let turn = 0; writing; turn++) {
          const lines = Array.from({ length: 400 }, (_, at) => `${PETS + at},${at + turn},available`);
          await inventory(
            server.url,
            ['import', '-', '--format', 'csv'],
            ['petId,quantity,status', ...lines].join('\n'),
          );
          await pause(200);
        }
      }
      const control = { seen: new Set<string>(), last: '0' };
      const readBehindLast = () =>
        whileWriting(async (client) => {
          const { rows } = await client.query<{ id: string }>('SELECT id FROM stock_change WHERE id > $1 ORDER BY id', [
            control.last,
          ]);
          for (const { id } of rows) control.seen.add(id);
          control.last = rows.at(-1)?.id ?? control.last;
          await pause(10);
        });
      const commits = new Map<string, number>();
      const watchCommits = () =>
        whileWriting(async (client) => {
          const { rows } = await client.query<{ id: string }>('SELECT id FROM stock_change ORDER BY id DESC LIMIT 500');
          for (const { id } of rows) if (!commits.has(id)) commits.set(id, Date.now());
          await pause(10);
        });
      const printed: string[] = [];
      const arrivals = new Map<string, number>();
      const errors: string[] = [];
      const lagsMs: number[] = [];
      let kills = 0;
      async function followAndKill(): Promise<void> {
        for (let last = false; !last;) {
          last = !writing;
          if (last) await Promise.all(writers);
          const after = printed.length === 0 ? '0' : idOf(printed.at(-1) ?? '');
          const follower = follow(server.url, '--after', after);
          if (last) {
            const [newest] = await server.database.sql<{ id: string }>('SELECT max(id) AS id FROM stock_change');
            await expect
              .poll(() => idOf(follower.lines.at(-1) ?? `"id":${after}`), { timeout: 100_000 })
              .toBe(newest?.id);
          } else {
            const { child, lines } = follower;
            const hasPrintedOrEnded = () => lines.length > 0 || child.exitCode !== null || !writing;
            await vi.waitUntil(hasPrintedOrEnded, { timeout: STALLED_MS });
            await pause(random.next() * 3_000);
          }
          kills++;
          await end(follower, 'SIGKILL');
          printed.push(...follower.lines);
          const upSince = Math.min(...follower.arrivals.values());
          for (const [id, at] of follower.arrivals) {
            arrivals.set(id, at);
            const committedAt = commits.get(id) ?? 0;
            if (committedAt > upSince) lagsMs.push(at - committedAt);
          }
          errors.push(follower.errors);
        }
      }

      const writers = [
        ...Array.from({ length: SQL_WRITERS }, () => writeSql(50)),
        ...Array.from({ length: SQL_WRITERS }, () => writeSql(1_000)), // longer than a follower without time takes to read
        ...[1, 2, 3, 4].map((seed) => writeByService(seed * 37)),
        writeByImport(),
        readBehindLast(),
        watchCommits(),
      ];
      const followed = followAndKill();
      await pause(WRITING_MS / 2);
      await server.crash();
      await pause(500);
      await server.restart();
      await pause(WRITING_MS / 2);
      writing = false;
      await Promise.all(writers);
      await followed;

      const history = await server.database.sql<{ line: string }>(`${HISTORY_AS_JSON} ORDER BY id`);
      const expected = history.map(({ line }) => line);
      const figures = {
        changes: expected.length,
        lost: expected.filter((line) => !arrivals.has(idOf(line))).length,
        doubled: printed.length - new Set(printed.map(idOf)).size,
        lostByControl: expected.filter(
          (line) => !control.seen.has(idOf(line)) && BigInt(idOf(line)) <= BigInt(control.last),
        ).length,
        kills,
        ...Object.fromEntries(
          [0.5, 0.9].map((share) => [
            `lagMs${share * 100}`,
            lagsMs.toSorted((a, b) => a - b)[Math.floor(lagsMs.length * share)],
          ]),
        ),
      };
      console.log('feed', JSON.stringify(figures), errors.filter(Boolean));
      expect(figures).toMatchObject({ lost: 0, doubled: 0 });
      expect(printed).toEqual(expected);
      expect(figures.lostByControl).toBeGreaterThan(0);
      await service.app.close();
    },
  );

  it('waits while PostgreSQL is away, says so once, and goes on', { timeout: 60_000 }, async () => {
    await server.database.sql(`INSERT INTO inventory_item VALUES (1000000, 1, 'sold')`);
    const follower = follow(server.url, '--limit', '1');
    await untilPrinted(follower, 1);
    await server.stop();
    await vi.waitUntil(() => follower.errors !== '', { timeout: STALLED_MS });
    await pause(3_000);
    await server.restart();
    await server.database.sql(`UPDATE inventory_item SET quantity = 2 WHERE pet_id = 1000000`);
    await untilPrinted(follower, 2);
    expect(follower.lines.map((line) => (JSON.parse(line) as { quantityAfter: number }).quantityAfter)).toEqual([1, 2]);
    expect(follower.errors).toMatch(/^.*; waiting for it\nthe database answers again\n$/);
    expect(await end(follower, 'SIGTERM')).toBe(0);
    expect(follower.errors.split('\n')).toHaveLength(3);
  });

  const isLong = process.env['FEED_SECONDS'] !== undefined; // it waits for the 35 s after which an answer is given up
  it.runIf(isLong)(
    'notices a PostgreSQL that no longer answers, and goes on when it does',
    { timeout: 150_000 },
    async () => {
      await server.database.sql(`INSERT INTO inventory_item VALUES (1000001, 1, 'sold')`);
      const follower = follow(server.url, '--limit', '1');
      await untilPrinted(follower, 1);
      server.freeze();
      await vi.waitUntil(() => follower.errors !== '', { timeout: STALLED_MS }).finally(() => server.thaw());
      expect(follower.errors).toBe(
        'the database cannot be reached: it did not answer in time; check DATABASE_URL; waiting for it\n',
      );
      await server.database.sql(`DELETE FROM inventory_item WHERE pet_id = 1000001`);
      await untilPrinted(follower, 2);
      expect(await end(follower, 'SIGTERM')).toBe(0);
    },
  );

  it(
    'waits for a prepared transaction, whose lock has changed its holder, but not for later ones',
    { timeout: 60_000 },
    async () => {
      await server.database.setSystem('SET max_prepared_transactions = 5', 'SET wal_level = logical');
      await server.stop();
      await server.restart();
      await server.database.sql(
        `INSERT INTO inventory_item SELECT n, 0, 'sold' FROM generate_series(2000001, 2000002) n`,
      );
      const follower = follow(server.url, '--limit', '1');
      await untilPrinted(follower, 1);
      const early = await server.database.session('UPDATE inventory_item SET quantity = 1 WHERE pet_id = 2000001');
      await server.database.sql(`UPDATE inventory_item SET quantity = 1 WHERE pet_id = 2000002`);
      await pause(1_500); // the follower has seen the later change and waits for the earlier one
      await early.query(`PREPARE TRANSACTION 'order'`);
      await early.end();
      await pause(1_500);
      expect(follower.lines).toHaveLength(1);
      await server.database.sql(
        `BEGIN; INSERT INTO inventory_item VALUES (2000003, 0, 'sold'); PREPARE TRANSACTION 'later'`,
      );
      await server.database.sql(`COMMIT PREPARED 'order'`);
      await untilPrinted(follower, 3); // both have come, for nothing later can come before them
      await server.database.sql(`ROLLBACK PREPARED 'later'`);
      expect(follower.lines.slice(1).map((line) => (JSON.parse(line) as { petId: number }).petId)).toEqual([
        2000001, 2000002,
      ]);
      await end(follower, 'SIGTERM');
    },
  );

  it('is not needed where logical replication is: the rows of stock_change come out whole', async () => {
    const { database } = server;
    await database.sql('CREATE PUBLICATION stock FOR TABLE stock_change');
    await database.sql(`SELECT pg_create_logical_replication_slot('warehouse', 'test_decoding')`);
    await database.sql(`BEGIN; INSERT INTO inventory_item VALUES (-9223372036854775808, 3, 'sold'); COMMIT`);
    const rows = await database.sql<{ data: string }>(
      `SELECT data FROM pg_logical_slot_get_changes('warehouse', NULL, NULL)
          WHERE data LIKE 'table public.stock_change:%'`,
    );
    expect(rows).toHaveLength(1);
    expect(rows[0]?.data).toMatch(
      /INSERT: pet_id\[bigint\]:-9223372036854775808 id\[bigint\]:\d+ quantity_before\[integer\]:null quantity_after\[integer\]:3 /,
    );
    expect(rows[0]?.data).toContain(`changed_by[text]:'sql:postgres'`);
    await database.sql(`SELECT pg_create_logical_replication_slot('debezium', 'pgoutput')`);
    await database.sql(`UPDATE inventory_item SET quantity = 4 WHERE pet_id = -9223372036854775808`);
    const messages = await database.sql<{ kind: string }>(
      `SELECT chr(get_byte(data, 0)) AS kind
           FROM pg_logical_slot_get_binary_changes('debezium', NULL, NULL, 'proto_version', '1', 'publication_names', 'stock')`,
    );
    expect(messages.map(({ kind }) => kind).join('')).toMatch(/^B.*RI.*C$/); // begin, relation, one insert, commit
    await database.sql(`SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots`);
    await database.sql('DROP PUBLICATION stock');
  });
});

describe('inventory history --after', () => {
  let store: Store;
  beforeAll(async () => {
    store = await openStore();
    await store.sql(`INSERT INTO inventory_item VALUES (9007199254740993, 0, 'available')`);
    for (let turn = 1; turn < 10; turn++) await store.sql(`UPDATE inventory_item SET quantity = ${turn}`);
  });
  afterAll(() => store.close());

  it('prints what came behind a change, one exact object a line, and ends', async () => {
    const [json, text, none] = await Promise.all([
      store.inventory('history', '--after', '8', '--json'),
      store.inventory('history', '--after', '9'),
      store.inventory('history', '--after', '10', '--json'),
    ]);
    const rows = await store.sql<{ line: string }>(`${HISTORY_AS_JSON} WHERE id > 8 ORDER BY id`);
    expect(json).toEqual({ code: 0, stdout: rows.map(({ line }) => `${line}\n`).join(''), stderr: '' });
    expect(json.stdout).toContain('"petId":9007199254740993,');
    expect(text.stdout).toMatch(
      /^10 {2}9007199254740993 {2}\S+Z {2}8 available {2}9 available {2}sql:postgres {2}-\n$/,
    );
    expect(none).toEqual({ code: 0, stdout: '', stderr: '' });
  });

  it('refuses a cursor that this database never gave', async () => {
    const { code, stderr } = await store.inventory('history', '--follow', '--after', '11');
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: 'error: there is no change 11, the newest is 10: was the database restored?\n',
    });
  });

  it('ends quietly when its reader has had enough or a signal comes', async () => {
    const reader = startInventory(store.url, ['history', '--follow', '--after', '0']);
    reader.stdout.destroy();
    await once(reader, 'close');
    const interrupted = follow(store.url, '--after', '0');
    await untilPrinted(interrupted, 10);
    expect([reader.exitCode, await end(interrupted, 'SIGINT'), interrupted.errors]).toEqual([0, 0, '']);
  });

  it('costs an idle database less than a statement a second', async () => {
    const follower = follow(store.url, '--limit', '1');
    await untilPrinted(follower, 1);
    await pause(3_000);
    const starts = new Set<string>();
    for (const stop = performance.now() + 6_600; performance.now() < stop;) {
      for (const { at } of await historySessions(store)) starts.add(at);
      await pause(20);
    }
    expect(starts.size).toBeGreaterThan(1);
    expect((starts.size - 1) / 6.6).toBeLessThan(1); // the first was under way or over before
    await end(follower, 'SIGTERM');
  });

  it('refuses a cursor before what was pruned, and says up to where', async () => {
    await store.sql(`ALTER TABLE stock_change DISABLE TRIGGER stock_change_append_only`);
    await store.sql(`UPDATE stock_change SET changed_at = now() - interval '2 days' WHERE id < 5`);
    await store.sql(`ALTER TABLE stock_change ENABLE TRIGGER stock_change_append_only`);
    expect((await store.inventory('history', 'prune', '--before', '1d')).stderr).toMatch(/^4 rows /);
    const [early, sound, latest] = await Promise.all([
      store.inventory('history', '--after', '3', '--json'),
      store.inventory('history', '--after', '4', '--json'),
      store.inventory('history', '--follow', '--after', '0'),
    ]);
    const told = (after: number) =>
      `error: changes behind ${after} are pruned, up to 4; begin anew with "inventory history cursor"\n`;
    expect(early).toEqual({ code: 1, stdout: '', stderr: told(3) });
    expect(sound.stdout.trim().split('\n')).toHaveLength(6);
    expect(latest).toEqual({ code: 1, stdout: '', stderr: told(0) });
  });

  it('is not held up by ids that nobody used, as a large transaction leaves them when it is rolled back', async () => {
    await store.sql(`SELECT setval(pg_get_serial_sequence('stock_change', 'id'), 200010)`);
    await store.sql('UPDATE inventory_item SET quantity = 10');
    const startedAt = performance.now();
    const { stdout } = await store.inventory('history', '--after', '10', '--json');
    expect(stdout).toMatch(/^.*"id":200011,.*\n$/);
    expect(performance.now() - startedAt).toBeLessThan(10_000); // a pause for each 10,000 ids would make it 17 s
  });

  describe('with a reader that does not read', () => {
    const CHANGES = 50_000;
    let last: string;
    beforeAll(async () => {
      const [row] = await store.sql<{ id: string }>('SELECT max(id) AS id FROM stock_change');
      last = row?.id ?? '';
      await store.sql(
        `INSERT INTO stock_change (pet_id, changed_by) SELECT 1, 'x' FROM generate_series(1, ${CHANGES})`,
      );
    });

    /** The command would have read all in that time, and ended its session. */
    async function startAndLeaveUnread() {
      const child = startInventory(store.url, ['history', '--json', '--after', last]);
      const waiting = () => historySessions(store, `state = 'idle' AND state_change < now() - interval '2 seconds'`);
      await expect.poll(waiting, { timeout: 15_000 }).toHaveLength(1);
      return child;
    }

    it('waits for it rather than keep the changes in memory, and leaves none out', async () => {
      const child = await startAndLeaveUnread();
      const [stdout] = await Promise.all([textOf(child.stdout), once(child, 'close')]);
      expect([child.exitCode, stdout.split('\n').length - 1]).toEqual([0, CHANGES]);
    });

    it('ends quietly when that goes', async () => {
      const child = await startAndLeaveUnread();
      child.stdout.destroy();
      const [stderr] = await Promise.all([textOf(child.stderr), once(child, 'close')]);
      expect([child.exitCode, stderr]).toEqual([0, '']);
    });
  });
});

describe('inventory history cursor', () => {
  it('is an id that nobody can commit before any more, in a pruned history too', async () => {
    const store = await openStore();
    const cursor = () => store.inventory('history', 'cursor');
    expect(await cursor()).toEqual({ code: 0, stdout: '0\n', stderr: '' });
    await store.sql(`INSERT INTO inventory_item VALUES (1, 0, 'sold'), (2, 0, 'sold')`);

    const early = await store.database.session('UPDATE inventory_item SET quantity = 3 WHERE pet_id = 1');
    await store.sql('UPDATE inventory_item SET quantity = 4 WHERE pet_id = 2');
    const waited = cursor();
    const waiting = () => historySessions(store, `backend_start < now() - interval '1 second'`);
    await expect.poll(waiting, { timeout: 10_000 }).toHaveLength(1);
    await early.query('COMMIT');
    await early.end();
    expect(await waited).toEqual({ code: 0, stdout: '4\n', stderr: '' });

    await store.sql(`ALTER TABLE stock_change DISABLE TRIGGER stock_change_append_only`);
    await store.sql(`UPDATE stock_change SET changed_at = now() - interval '2 days'`);
    await store.sql(`ALTER TABLE stock_change ENABLE TRIGGER stock_change_append_only`);
    await store.inventory('history', 'prune', '--before', '1d');
    expect((await store.inventory('history', '--after', '0')).code).toBe(1);
    expect(await cursor()).toEqual({ code: 0, stdout: '4\n', stderr: '' });
    expect(await store.inventory('history', '--after', '4')).toEqual({ code: 0, stdout: '', stderr: '' });
    await store.close();
  });
});

describe.skipIf(spawnSync('jq', ['--version']).error)('the recipes of docs/operations.md', () => {
  it(
    'call a webhook and send mail on low stock, and go on where they were after a kill',
    { timeout: 90_000 },
    async () => {
      const store = await openStore();
      const folder = await mkdtemp(join(tmpdir(), 'inventory-recipes-'));
      const received: string[] = [];
      let refused = 0;
      const receiver = createServer((request, response) => {
        void textOf(request).then((body) => {
          if (refused++ === 0) response.statusCode = 503;
          else received.push(body);
          response.end();
        });
      }).listen(0, '127.0.0.1');
      await once(receiver, 'listening');
      const { port } = receiver.address() as AddressInfo;
      const script = async (name: string, content: string) => {
        await writeFile(join(folder, name), `#!/bin/sh\n${content}\n`, { mode: 0o755 });
      };
      const { command, args } = inventoryCommand();
      await script('inventory', `exec '${command}' ${args.map((arg) => `'${arg}'`).join(' ')} "$@"`);
      await script('mail', 'cat >> mails');
      const docs = await readFile('docs/operations.md', 'utf8');
      const recipe = (title: string) => /```sh\n(.*?)```/s.exec(docs.slice(docs.indexOf(title)))?.[1] ?? '';
      const env = { ...process.env, PATH: `${folder}:${process.env['PATH'] ?? ''}`, DATABASE_URL: store.url };
      const run = async (title: string, done: () => boolean) => {
        const settings = { WEBHOOK_URL: `http://127.0.0.1:${port}/`, MAIL_TO: 'store@example.test' };
        const child = spawn('sh', ['-c', recipe(title)], { cwd: folder, detached: true, env: { ...env, ...settings } });
        await vi.waitUntil(done, { timeout: STALLED_MS });
        process.kill(-(child.pid ?? 0), 'SIGKILL');
        await once(child, 'close');
      };
      const quantities = () => received.map((body) => (JSON.parse(body) as { quantityAfter: number }).quantityAfter);
      const file = (name: string) => (existsSync(join(folder, name)) ? readFileSync(join(folder, name), 'utf8') : '');

      await store.sql(`INSERT INTO inventory_item VALUES (7, 6, 'available')`);
      await once(spawn('sh', ['-c', recipe('To start from')], { cwd: folder, env }), 'close');
      expect([file('last-id'), file('stock.csv')]).toEqual(['1\n', 'petId,quantity,status\n7,6,available\n']);
      await store.sql('UPDATE inventory_item SET quantity = 5');
      await run('A webhook.', () => file('last-id') === '2\n');
      await store.sql('UPDATE inventory_item SET quantity = 4');
      await run('A webhook.', () => file('last-id') === '3\n');
      expect(quantities()).toEqual([5, 4]);

      await writeFile(join(folder, 'last-id'), '1\n');
      await store.sql('UPDATE inventory_item SET quantity = 3');
      await run('Mail when', () => file('last-id') === '4\n');
      expect(file('mails')).toBe('Pet 7 is down to 4.\n');
      receiver.close();
      await rm(folder, { recursive: true });
      await store.close();
    },
  );
});
