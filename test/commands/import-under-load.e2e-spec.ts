import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import type { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startService, type TestService } from '../support/service.ts';
import { inventory, startInventory } from './inventory-command.ts';

const PETS = 5_000;
const IMPORT = ['import', '-', '--format', 'csv'];
const DONE = { code: 0, stdout: '', stderr: '' };

let service: TestService;
let url: string;
beforeAll(async () => {
  service = await startService();
  url = service.databaseUrl;
});
afterAll(() => service.stop());

function stockOf(quantity: number): string {
  const lines = Array.from({ length: PETS }, (_, at) => `${at},${quantity},available\n`);
  return `petId,quantity,status\n${lines.join('')}`;
}

async function load(quantity: number): Promise<void> {
  expect(await inventory(url, [...IMPORT, '--missing', 'remove', '--quiet'], stockOf(quantity))).toEqual(DONE);
}

/** How often each quantity is in the list as clients see it. */
async function listed(): Promise<Record<string, number>> {
  const list = await service.list();
  expect(list.status).toBe(200);
  const counts: Record<string, number> = {};
  for (const { quantity } of JSON.parse(list.text) as { quantity: number }[])
    counts[quantity] = (counts[quantity] ?? 0) + 1;
  return counts;
}

/** The sessions of imports of which this holds. */
function imports(condition = 'true') {
  return service.sql(
    `SELECT FROM pg_stat_activity
      WHERE application_name = 'inventory import' AND datname = current_database() AND ${condition}`,
  );
}

function untilImport(condition: string) {
  return expect.poll(() => imports(condition), { timeout: 10_000 }).toHaveLength(1);
}

describe('an import under load', () => {
  it('shows the whole old stock until it is done, and then the whole new one', async () => {
    await load(1);
    const release = await service.database.lockRow(PETS - 1); // the last row to be changed: all others are written and not yet committed
    const child = startInventory(url, [...IMPORT, '--quiet']);
    child.stdin.end(stockOf(2));
    const finished = once(child, 'close');
    await untilImport(`wait_event_type = 'Lock'`);
    expect(await listed()).toEqual({ 1: PETS });

    await release();
    const seen = new Set<string>();
    while (child.exitCode === null) seen.add(JSON.stringify(await listed()));
    await finished;
    expect(child.exitCode).toBe(0);
    expect(await listed()).toEqual({ 2: PETS });
    for (const list of seen) expect([{ 1: PETS }, { 2: PETS }]).toContainEqual(JSON.parse(list));
  });

  it('leaves the old stock whole when it is killed while it reads', async () => {
    await load(3);
    const child = startInventory(url, [...IMPORT, '--missing', 'remove', '--quiet']);
    child.stdin.write(stockOf(4).slice(0, 60_000));
    await untilImport(`query LIKE 'COPY incoming%'`);
    child.kill('SIGKILL');
    await once(child, 'close');
    expect(await listed()).toEqual({ 3: PETS });
    await expect.poll(() => imports(), { timeout: 5_000 }).toEqual([]);
  });

  it('leaves the old stock whole, and no lock behind, when it is killed while it writes', async () => {
    await load(5);
    const release = await service.database.lockRow(PETS - 1);
    const child = startInventory(url, [...IMPORT, '--missing', 'remove', '--quiet']);
    child.stdin.end(stockOf(6));
    await untilImport(`wait_event_type = 'Lock'`);
    child.kill('SIGKILL');
    await once(child, 'close');
    await expect.poll(() => imports(), { timeout: 2_200 }).toEqual([]); // before its wait for the lock would end by itself
    expect(await listed()).toEqual({ 5: PETS });
    expect((await service.update(1, 5)).status).toBe(200);
    await release();
  });

  it('gives up in one line when someone holds a pet for too long', async () => {
    await load(7);
    const release = await service.database.lockRow(0);
    const { code, stderr } = await inventory(url, IMPORT, stockOf(8));
    await release();
    expect(code).toBe(1);
    expect(stderr).toContain(
      'error: another transaction holds what this needs and did not let go in time; nothing was written',
    );
    expect(await listed()).toEqual({ 7: PETS });
  });

  it('and updates from two services at once write a history that verifies', async () => {
    await load(9);
    const other = await startService({ databaseUrl: url, key: service.key });
    let importing = true;
    const statuses = new Map<number, number>();

    async function update(target: TestService, seed: number): Promise<void> {
      for (let turn = seed; importing; turn += 7) {
        const { status } = await target.update((turn * 31) % 100, turn);
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
      }
    }
    const updates = [service, other].flatMap((target) => [1, 2, 3, 4].map((seed) => update(target, seed)));
    const outcomes = [];
    for (const quantity of [10, 11, 12]) {
      outcomes.push(await inventory(url, [...IMPORT, '--quiet'], stockOf(quantity)));
    }
    importing = false;
    await Promise.all(updates);
    await other.stop();

    expect(outcomes).toEqual([DONE, DONE, DONE]);
    expect([...statuses.keys()].filter((status) => status !== 200 && status !== 503)).toEqual([]);
    expect(statuses.get(200)).toBeGreaterThan(50);
    const { code, stdout } = await inventory(url, ['history', '--verify']);
    expect({ code, stdout }).toEqual({ code: 0, stdout: `the history of all ${PETS} pets is whole\n` });
  });

  it('ends when it fails, though standard input is still open', async () => {
    const child = startInventory('postgresql://127.0.0.1:1/x', IMPORT);
    const [stderr] = await Promise.all([text(child.stderr), once(child, 'exit')]);
    expect(child.exitCode).toBe(1);
    expect(stderr).toContain('the database cannot be reached');
    child.stdin.destroy();
  });
});

describe('inventory export', () => {
  /** Writes all rows anew in a transaction that is not over yet. */
  function rewriteStock(): Promise<Client> {
    return service.database.session(
      'CREATE TEMP TABLE same ON COMMIT DROP AS TABLE inventory_item',
      'TRUNCATE inventory_item',
      'INSERT INTO inventory_item TABLE same',
    );
  }

  it('waits for a transaction that rewrites the table, as a dry run does, and then sees all of it', async () => {
    await load(20);
    const rewriter = await rewriteStock();
    const outcomes = Promise.all([inventory(url, ['export']), inventory(url, [...IMPORT, '--dry-run'], stockOf(20))]);
    const waiting = () =>
      service.sql(`SELECT FROM pg_locks WHERE relation = 'inventory_item'::regclass AND NOT granted`);
    await expect.poll(waiting, { timeout: 10_000 }).toHaveLength(2);
    await rewriter.query('COMMIT');
    await rewriter.end();
    const [exported, compared] = await outcomes;
    expect(exported).toEqual({ code: 0, stdout: stockOf(20), stderr: '' });
    expect(compared.stderr).toContain(`0 added, 0 changed, ${PETS} unchanged, 0 removed`);
  });

  it('gives up in one line, and writes nothing, when that transaction does not end', async () => {
    const rewriter = await rewriteStock();
    const outcome = await inventory(url, ['export', '--format', 'json']);
    await rewriter.end();
    expect(outcome).toEqual({
      code: 1,
      stdout: '',
      stderr:
        'error: another transaction holds what this needs and did not let go in time; nothing was written, try again\n',
    });
  });

  it('ends quietly when its reader has had enough', async () => {
    const child = startInventory(url, ['export']);
    child.stdout.destroy();
    const [stderr] = await Promise.all([text(child.stderr), once(child, 'exit')]);
    expect({ code: child.exitCode, stderr }).toEqual({ code: 0, stderr: '' });
  });
});
