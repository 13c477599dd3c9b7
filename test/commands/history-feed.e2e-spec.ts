import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { text as textOf } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest';
import { withPrisma } from '../../src/commands/connection.ts';
import { type Change, readChanges } from '../../src/history/history-feed.ts';
import { createDatabase } from '../support/database.ts';
import { exportedCsv } from '../support/stock.ts';
import { changeOf, Follower, HISTORY_AS_JSON, STALLED_MS } from './follower.ts';
import {
  failed,
  inventory,
  outcomeOf,
  printed,
  sessionsOf,
  SHELL_COMMAND,
  startInventory,
  untilSessionOf,
} from './inventory-command.ts';
import { openStore, type Store } from './store.ts';

describe('inventory history --after, with and without --follow', () => {
  let store: Store;
  beforeEach(async () => {
    store = await openStore();
    await store.sql(`INSERT INTO inventory_item VALUES (-9223372036854775808, 0, 'available')`);
    for (let turn = 1; turn < 10; turn++) await store.sql(`UPDATE inventory_item SET quantity = ${turn}`);
  });

  it('prints all later changes, one per line, and ends', async () => {
    const lines = (await store.sql<{ line: string }>(HISTORY_AS_JSON)).map(({ line }) => `${line}\n`);
    const json = await store.inventory('history', '--after', '8', '--json');
    expect(json).toEqual(printed(lines.slice(8).join('')));
    expect(json.stdout).toContain('"petId":-9223372036854775808,');
    expect((await store.inventory('history', '--after', '9')).stdout).toMatch(
      /^10 {2}-9223372036854775808 {2}\S+Z {2}8 available {2}9 available {2}sql:postgres {2}- {2}-\n$/,
    );
    expect(await store.inventory('history', '--after', '10', '--json')).toEqual(printed());
  });

  it('sends an idle database less than one statement a second, and exits with 0 on Ctrl-C', async () => {
    const follower = new Follower(store.url, '--limit', '1');
    await follower.prints(1);
    await pause(1_500); // its pauses grow to their longest, which nothing shows
    const seen = new Set<string>();
    const statements = async () => {
      for (const { at } of await sessionsOf('history', store)) seen.add(at);
      return seen.size;
    };
    await expect.poll(statements, { timeout: STALLED_MS, interval: 100 }).toBe(4);
    const [, ...startedAt] = [...seen].map(Number); // the first may be from before the pause
    for (const [n, at] of startedAt.slice(1).entries()) expect(at - (startedAt[n] ?? NaN)).toBeGreaterThan(1);
    expect(Number(startedAt[2]) - Number(startedAt[1])).toBeLessThan(4); // its pauses grow no longer
    expect([await follower.end('SIGINT'), follower.errors]).toEqual([0, '']);
  });

  it('refuses the id of a change that does not exist, or has later changes that are pruned', async () => {
    expect(await store.inventory('history', '--follow', '--after', '11')).toEqual(
      failed('there is no change 11, the newest is 10: was the database restored?'),
    );
    const noServer = await inventory('postgresql://u@127.0.0.1:1/x', ['history', '--follow']);
    expect(noServer).toMatchObject({ code: 1, stdout: '' }); // it waits only for a server that has answered once
    await store.rewriteHistory(`UPDATE stock_change SET changed_at = now() - interval '2 days' WHERE id < 5`);
    expect((await store.inventory('history', 'prune', '--before', '1d')).stderr).toMatch(/^4 rows /);
    const refusal = (after: number) =>
      failed(`changes behind ${after} are pruned, up to 4; begin anew with "inventory history cursor"`);
    expect(await store.inventory('history', '--after', '3', '--json')).toEqual(refusal(3));
    expect(await store.inventory('history', '--follow', '--after', '0')).toEqual(refusal(0));
    const sound = await store.inventory('history', '--after', '4', '--json');
    expect(sound.stdout.trim().split('\n')).toHaveLength(6);
    const follows = store.inventory('history', '--follow', '--json', '--limit', '100'); // begins with what is left
    await untilSessionOf('history', store.database, `backend_start < now() - interval '1 second'`);
    await store.rewriteHistory('DELETE FROM stock_change'); // as restoring an older database does
    const message = 'there is no change 10, the newest is 0: was the database restored?';
    expect(await follows).toEqual(failed(message, sound.stdout));
  });

  it('waits while nothing reads its output, and later prints every change, also behind 30,000 unused ids', async () => {
    const CHANGES = 20_000;
    await store.sql(`SELECT setval(pg_get_serial_sequence('stock_change', 'id'), 30010)`);
    await store.sql(`INSERT INTO stock_change (pet_id, changed_by) SELECT 1, 'x' FROM generate_series(1, ${CHANGES})`);
    const stalled = startInventory(store.url, ['history', '--json', '--after', '10']);
    // A command that does not wait has ended its session by then.
    await untilSessionOf('history', store.database, `state = 'idle' AND state_change < now() - interval '1 second'`);
    const { code, stdout } = await outcomeOf(stalled);
    expect([code, stdout.split('\n').length - 1]).toEqual([0, CHANGES]);
    vi.stubEnv('DATABASE_URL', store.url);
    onTestFinished(() => void vi.unstubAllEnvs());
    const read: number[] = [];
    await withPrisma('test', async (prisma) => {
      for await (const { length } of readChanges(prisma, { after: 10n, limit: 1 }, console.error)) read.push(length);
      const follower = readChanges(prisma, { after: 50_009n, limit: 1, follow: true }, console.error);
      const next = async () => ((await follower.next()).value as Change[]).map(({ id }) => id);
      expect(await next()).toEqual([50_010n]);
      await store.sql(`INSERT INTO stock_change (pet_id, changed_by) VALUES (1, 'x')`);
      expect(await next()).toEqual([50_011n]);
      await follower.return(undefined);
    });
    expect(read).toEqual([0, 0, 0, ...Array<number>(2).fill(10_000)]); // what it keeps in memory at a time
  });
});

describe('inventory history cursor', () => {
  it('prints the newest id after all earlier transactions have ended, also when the history is pruned', async () => {
    const store = await openStore();
    const cursor = () => store.inventory('history', 'cursor');
    expect(await cursor()).toEqual(printed('0\n'));
    await store.sql(`INSERT INTO inventory_item VALUES (1, 0, 'sold'), (2, 0, 'sold')`);

    const early = await store.database.session('UPDATE inventory_item SET quantity = 3 WHERE pet_id = 1');
    await store.sql('UPDATE inventory_item SET quantity = 4 WHERE pet_id = 2');
    const waited = cursor();
    await untilSessionOf('history', store.database, `backend_start < now() - interval '1 second'`);
    await early.query('COMMIT');
    expect(await waited).toEqual(printed('4\n'));

    // It does not wait for sessions that read the history, that wait to write, or that write another table or database.
    const { database } = store;
    const holder = await database.session('SELECT FROM stock_change', 'LOCK TABLE stock_change IN SHARE MODE');
    const waiting = await database.session('SELECT');
    waiting.query('UPDATE inventory_item SET quantity = 5').catch(() => undefined);
    await database.session('LOCK TABLE api_key IN ROW EXCLUSIVE MODE');
    await (await createDatabase()).session('LOCK TABLE stock_change IN ROW EXCLUSIVE MODE');
    await expect.poll(() => database.waitingForLocks()).toBe(1);
    expect(await cursor()).toEqual(printed('4\n'));
    await Promise.all([holder.end(), waiting.end()]);

    await store.rewriteHistory(`UPDATE stock_change SET changed_at = now() - interval '2 days'`);
    await store.inventory('history', 'prune', '--before', '1d');
    expect((await store.inventory('history', '--after', '0')).code).toBe(1);
    expect(await cursor()).toEqual(printed('4\n'));
    expect(await store.inventory('history', '--after', '4')).toEqual(printed());
  });
});

describe.skipIf(spawnSync('jq', ['--version']).error)('the recipes of docs/changes.md', () => {
  it('call a webhook, which continues after a kill, and send mail on low stock', async () => {
    const store = await openStore();
    const folder = await mkdtemp(join(tmpdir(), 'inventory-recipes-'));
    const received: number[] = [];
    let requests = 0;
    /** Fails the first request. */
    const receiver = createServer((request, response) => {
      void textOf(request).then((body) => {
        if (requests++ === 0) response.statusCode = 503;
        else received.push(changeOf(body).quantityAfter);
        response.end();
      });
    }).listen(0, '127.0.0.1');
    await once(receiver, 'listening');

    await writeFile(join(folder, 'inventory'), `#!/bin/sh\nexec ${SHELL_COMMAND} "$@"\n`, { mode: 0o755 });
    await writeFile(join(folder, 'mail'), '#!/bin/sh\ncat >> mails\n', { mode: 0o755 });
    const env = {
      PATH: `${folder}:${process.env['PATH'] ?? ''}`,
      DATABASE_URL: store.url,
      WEBHOOK_URL: `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`,
    };
    const docs = await readFile('docs/changes.md', 'utf8');
    const start = (...command: string[]) => spawn('sh', command, { cwd: folder, detached: true, env });
    const file = (name: string) => readFileSync(join(folder, name), 'utf8');
    /** Kills the script once it has handled this change. */
    const runUpTo = async (id: number, script: string) => {
      const recipe = start(resolve('deploy/feed', script));
      await vi.waitUntil(() => file('last-id') === `${id}\n`, { timeout: STALLED_MS });
      process.kill(-(recipe.pid ?? NaN), 'SIGKILL');
      await once(recipe, 'close');
    };

    await store.sql(`INSERT INTO inventory_item VALUES (7, 6, 'available')`);
    const [, fromNow = ''] = /To start from[^`]*```sh\n(.*?)```/s.exec(docs) ?? [];
    await once(start('-c', fromNow), 'close');
    expect([file('last-id'), file('stock.csv')]).toEqual(['1\n', exportedCsv('7,6,available\n')]);
    await store.sql('UPDATE inventory_item SET quantity = 5');
    await runUpTo(2, 'webhook.sh');
    await store.sql(`BEGIN; SET LOCAL inventory.reason = 'sale'; UPDATE inventory_item SET quantity = 4; COMMIT`);
    await runUpTo(3, 'webhook.sh');
    expect(received).toEqual([5, 4]);

    await writeFile(join(folder, 'last-id'), '1\n');
    await store.sql('UPDATE inventory_item SET quantity = 3');
    const [, mailOnLowStock = ''] = /This sends a mail[^`]*```sh\n(.*?)```/s.exec(docs) ?? [];
    const recipe = start('-c', mailOnLowStock);
    await vi.waitUntil(() => existsSync(join(folder, 'mails')) && file('mails') !== '', { timeout: STALLED_MS });
    process.kill(-(recipe.pid ?? NaN), 'SIGKILL');
    await once(recipe, 'close');
    expect(file('mails')).toBe('Pet 7 is down to 4.\n');
    receiver.close();
    await rm(folder, { recursive: true });
  });
});
