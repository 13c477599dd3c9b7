import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { Client } from 'pg';
import { beforeAll, beforeEach, describe, expect, inject, it, onTestFinished, vi } from 'vitest';
import { watchBatches } from '../../../test/support/batches.ts';
import { type TestService, startService } from '../../../test/support/service.ts';
import { atTestEnd } from '../../../test/support/test-end.ts';
import { UPDATE, changesOf, setQuantity } from '../../../test/support/updates.ts';
import { StatementConnection } from '../../lib/postgres/index.ts';
import { InventoryService } from '../inventory.service.ts';
import type { QuantityUpdate } from '../inventory.ts';
import { FastInventoryService } from './fast-inventory.service.ts';

let service: TestService;

/** Another process. It ends with the test. */
const startAnother = (settings = {}) =>
  startService({ databaseUrl: service.databaseUrl, settings: { FAST: 'on', ...settings } });

beforeAll(async () => {
  service = await startService({ settings: { FAST: 'on' } });
});
beforeEach(async () => {
  await service.sql('DELETE FROM inventory_item');
});

const pets = (count: number, from = 1) => Array.from({ length: count }, (_, at) => from + at);
const stockOf = (...petIds: number[]) => service.stock(...petIds.map((pet) => [pet, 0] as const));
const updateAll = (updates: Partial<QuantityUpdate>[], by = service, patienceMs?: number) =>
  Promise.all(updates.map((update) => setQuantity(by, update, patienceMs)));

it('FAST=on chooses the fast service, and FAST=off the plain one', async () => {
  expect(service.inventory).toBeInstanceOf(FastInventoryService);
  expect((await startAnother({ FAST: 'off' })).inventory).toBeInstanceOf(InventoryService);
});

describe('a statement', () => {
  it('takes the updates that wait, and 500 at most', async () => {
    const fresh = await startAnother();
    const sizes = watchBatches('updates');
    for (const count of [20, 1_100])
      await updateAll(
        pets(count, 100).map((pet) => ({ petId: BigInt(pet) })),
        fresh,
        25_000,
      );
    expect(sizes).toEqual([20, 500, 500, 100]);
  });

  it('waits for an update whose key is being checked, for 50 ms at most', async () => {
    await stockOf(1, 2);
    const sizes = watchBatches('updates');
    const fresh = await startAnother();
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }); // 50 ms pass only when the test says so
    onTestFinished(() => void vi.useRealTimers());
    const isChecking = `SELECT FROM pg_stat_activity WHERE datname = current_database()
      AND application_name = 'inventory key check' AND wait_event_type = 'Lock'`;
    const together = async (letGo: (holder: Client) => Promise<unknown>) => {
      const holder = await fresh.database.session('LOCK TABLE api_key');
      const first = fresh.update(1, 1);
      await expect.poll(() => service.sql(isChecking)).toHaveLength(1);
      const second = setQuantity(fresh, { petId: 2n }, 25_000);
      await letGo(holder);
      expect(await second).toMatchObject({ outcome: 'done' });
      await holder.query('COMMIT');
      expect(await first).toMatchObject({ status: 200 });
    };
    await together((holder) => holder.query('COMMIT'));
    expect(sizes).toEqual([2]);
    await together(async () => {
      for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate);
      expect(sizes).toEqual([2]);
      vi.advanceTimersByTime(50);
    });
    expect(sizes).toEqual([2, 1, 1]);
  });

  it('is sent again in halves for a refused value: one among a hundred updates costs fifteen statements', async () => {
    const many = pets(100);
    await stockOf(...many);
    await service.sql('ALTER TABLE inventory_item ADD CONSTRAINT most CHECK (quantity <= 1000)');
    await atTestEnd(() => service.sql('ALTER TABLE inventory_item DROP CONSTRAINT most'));
    const fresh = await startAnother();
    const sent = vi.spyOn(StatementConnection.prototype, 'run');
    onTestFinished(() => sent.mockRestore());
    const results = await updateAll(
      many.map((pet) => ({ petId: BigInt(pet), quantity: pet === 1 ? 1_001 : 1 })),
      fresh,
      25_000,
    );
    expect(results.filter(({ outcome }) => outcome === 'done')).toHaveLength(99);
    expect(sent).toHaveBeenCalledTimes(15); // all of them; halves of 100, 50, 25, 13, 7, 4 and 2
  });

  it('is one for a lone update, and a second one if the pet is absent', async () => {
    await stockOf(1);
    const fresh = await startAnother();
    const sent = vi.spyOn(StatementConnection.prototype, 'run');
    onTestFinished(() => sent.mockRestore());
    expect(await setQuantity(fresh, { petId: 1n })).toMatchObject({ outcome: 'done' });
    expect(sent).toHaveBeenCalledTimes(1);
    const sessions = await service.database.sessions();
    expect(await setQuantity(fresh, { petId: 404n })).toEqual({ outcome: 'not_found' });
    expect(sent).toHaveBeenCalledTimes(3);
    expect(await service.database.sessions()).toEqual(sessions);
  });

  it('is no second one for a lone update if the first one waited so long for a lock that another wait would be too much', async () => {
    // A lock may take 1,800 ms, and sending needs 2,160.
    const fresh = await startAnother({ REQUEST_DEADLINE_MS: '9000' });
    const first = await service.database.session('LOCK TABLE inventory_item');
    const update = setQuantity(fresh, { petId: 404n }, 3_000);
    await expect.poll(() => service.database.waitingForLocks()).toBe(1);
    const second = await service.database.session();
    const locked = second.query('BEGIN; LOCK TABLE inventory_item');
    await pause(1_200); // so long the first statement waits
    await first.end();
    expect(await update).toEqual({ outcome: 'service_unavailable' });
    await locked;
    await second.end();
  });

  it.skipIf(inject('postgresMajor') < 17)('may last as long as the service waits for it', async () => {
    await stockOf(1);
    await service.sql(`CREATE FUNCTION show_bound() RETURNS trigger LANGUAGE plpgsql AS
        $$BEGIN RAISE 'bound: %', current_setting('transaction_timeout'); END$$;
      CREATE TRIGGER show_bound BEFORE UPDATE ON inventory_item FOR EACH ROW EXECUTE FUNCTION show_bound()`);
    await atTestEnd(() => service.sql('DROP FUNCTION show_bound CASCADE'));
    const hasty = await startAnother({ REQUEST_DEADLINE_MS: '2500' });
    await expect(hasty.inventory.setQuantity(UPDATE, performance.now() + 9_000)).rejects.toThrow('bound: 2s');
  });

  it.each([3_600_000, -3_600_000])('is executed after the clock of the database was set %i ms ahead', async (byMs) => {
    await stockOf(1);
    const early = await startAnother();
    const now = performance.now.bind(performance);
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + byMs);
    onTestFinished(() => clock.mockRestore());
    expect(await setQuantity(early, { quantity: 1 })).toMatchObject({ outcome: 'done' });
    clock.mockRestore(); // from here on the database's clock differs by that from what it was
    expect(await setQuantity(early, { quantity: 2 })).toMatchObject({ outcome: 'done' });
  });
});

describe('updates with the keys of others', () => {
  it('are refused when the key is committed after the statement began', async () => {
    await stockOf(1, 2);
    const [blocked, key] = [`a-${randomUUID()}`, `b-${randomUUID()}`];
    const record = (idempotencyKey: string) =>
      `INSERT INTO stock_change (pet_id, quantity_before, quantity_after, status_before, status_after, changed_by, idempotency_key)
       VALUES (99, 10, 11, 'available', 'available', 'key:test', '${idempotencyKey}')`;
    const blocker = await service.database.session(record(blocked));
    // Both go in one statement, which has its snapshot, holds pet 1 and waits for the blocker before it comes to `key`.
    const both = updateAll([
      { petId: 2n, idempotencyKey: blocked },
      { petId: 1n, idempotencyKey: key },
    ]);
    await expect.poll(() => service.database.waitingForLocks()).toBe(1);
    const first = await service.database.session(record(key));
    await first.query('COMMIT');
    await blocker.query('ROLLBACK');
    expect((await both).map(({ outcome }) => outcome)).toEqual(['done', 'idempotency_key_reused']);
    expect(await changesOf(service, 1)).toEqual([]);
  });
});
