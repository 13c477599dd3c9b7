import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import type { Client } from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { startService, type TestService } from '../support/service.ts';
import { CSV_HEADER, exportedCsv } from '../support/stock.ts';
import {
  EXPORT_FAILED,
  failed,
  IMPORT_CSV,
  inventory,
  outcomeOf,
  printed,
  sessionsOf,
  startInventory,
  untilSessionOf,
} from './inventory-command.ts';

const PETS = 5_000;
const HELD = 'another transaction holds what this needs and did not let go in time; try again';

let service: TestService;
let url: string;
beforeAll(async () => {
  service = await startService();
  url = service.databaseUrl;
});

function petsWith(quantity: number): string {
  return Array.from({ length: PETS }, (_, petId) => `${petId},${quantity},available\n`).join('');
}
const stockOf = (quantity: number) => CSV_HEADER + petsWith(quantity);

function load(quantity: number) {
  return inventory(url, [...IMPORT_CSV, '--quiet'], stockOf(quantity));
}

function startLoading(quantity: number) {
  const child = startInventory(url, [...IMPORT_CSV, '--quiet']);
  child.stdin.end(stockOf(quantity));
  return child;
}

/** How many pets of the list have each quantity. */
async function listed(): Promise<Record<string, number>> {
  const { status, text } = await service.list();
  expect(status).toBe(200);
  const counts: Record<string, number> = {};
  for (const { quantity } of JSON.parse(text) as { quantity: number }[]) {
    counts[quantity] = (counts[quantity] ?? 0) + 1;
  }
  return counts;
}

describe('an import under load', () => {
  it('leaves the list as it was until the import commits, and then shows the new stock', async () => {
    expect(await load(1)).toEqual(printed());
    const release = await service.database.lockRow(PETS - 1); // the last pet that the import changes
    const child = startLoading(2);
    const finished = outcomeOf(child);
    await untilSessionOf('import', service.database, `wait_event_type = 'Lock'`);
    expect(await listed()).toEqual({ 1: PETS });

    await release();
    while (child.exitCode === null) expect([{ 1: PETS }, { 2: PETS }]).toContainEqual(await listed());
    expect(await finished).toEqual(printed());
    expect(await listed()).toEqual({ 2: PETS });
  });

  it('changes nothing and releases its locks when it is killed while it writes', async () => {
    expect(await load(5)).toEqual(printed());
    const release = await service.database.lockRow(PETS - 1);
    const child = startLoading(6);
    await untilSessionOf('import', service.database, `wait_event_type = 'Lock'`);
    child.kill('SIGKILL');
    await once(child, 'close');
    await expect.poll(() => sessionsOf('import', service.database)).toEqual([]);
    expect(await listed()).toEqual({ 5: PETS });
    expect((await service.update(1, 5)).status).toBe(200);
    await release();
  });

  it('gives up with one line while a pet stays locked', async () => {
    expect(await load(7)).toEqual(printed());
    const release = await service.database.lockRow(0);
    expect(await inventory(url, IMPORT_CSV, stockOf(8))).toEqual(failed(HELD));
    await release();
    expect(await listed()).toEqual({ 7: PETS });
  });

  it('ends when it fails, although standard input is open', async () => {
    const child = startInventory('postgresql://127.0.0.1:1/x', IMPORT_CSV);
    const { code, stderr } = await outcomeOf(child);
    expect(code).toBe(1);
    expect(stderr).toContain('the database cannot be reached');
    child.stdin.destroy();
  });
});

describe('inventory export', () => {
  /** Begins a transaction that writes all rows again. */
  function rewriteStock(): Promise<Client> {
    return service.database.session(
      'CREATE TEMP TABLE same ON COMMIT DROP AS TABLE inventory_item',
      'TRUNCATE inventory_item',
      'INSERT INTO inventory_item TABLE same',
    );
  }

  it.each([
    [['export'], exportedCsv(petsWith(20)), /^$/],
    [[...IMPORT_CSV, '--dry-run'], '', new RegExp(`: 0 added, 0 changed, ${PETS} unchanged, 0 removed in `)],
  ])(
    'waits, as a dry run does, for a transaction that rewrites the table, and then reads all rows: %j',
    async (command, output, message) => {
      expect(await load(20)).toEqual(printed());
      const rewriter = await rewriteStock();
      const finished = inventory(url, command, stockOf(20));
      await untilSessionOf(command[0] ?? '', service.database, `wait_event_type = 'Lock'`); // it gives up after 5 s
      await rewriter.query('COMMIT');
      const { code, stdout, stderr } = await finished;
      expect([code, stderr]).toEqual([0, expect.stringMatching(message)]);
      expect(stdout === output).toBe(true); // Vitest would print thousands of lines
    },
  );

  it('gives up with one line and the failure mark when that transaction does not end', async () => {
    await rewriteStock();
    expect(await inventory(url, ['export', '--format', 'json'])).toEqual(failed(HELD, EXPORT_FAILED));
  });

  it('exits with 0 and no message when its reader closes the pipe', async () => {
    const child = startInventory(url, ['export']);
    child.stdout.destroy();
    const [stderr] = await Promise.all([text(child.stderr), once(child, 'close')]);
    expect([child.exitCode, stderr]).toEqual([0, '']);
  });
});
