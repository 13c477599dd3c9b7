import { Client } from 'pg';
import { beforeAll, expect, it, onTestFinished, vi } from 'vitest';
import { startService, type TestService } from '../../../test/support/service.ts';
import { readStock } from '../../../test/support/stock-lists.ts';
import { atTestEnd } from '../../../test/support/test-end.ts';
import { Batcher, NotApplied } from '../../lib/postgres/index.ts';
import { PrismaService } from '../../prisma.service.ts';

let service: TestService;

beforeAll(async () => {
  service = await startService({ settings: { FAST: 'off' } });
});

/** The transactions that read the stock. */
function watchReadings() {
  const readings = vi.spyOn(service.app.get(PrismaService), '$transaction');
  onTestFinished(() => readings.mockRestore());
  return readings;
}

it('a reading may take 25 s, and a list waits for its turn as long', async () => {
  const readings = watchReadings();
  const submitted = vi.spyOn(Batcher.prototype, 'submit');
  onTestFinished(() => submitted.mockRestore());
  const startedAt = performance.now();
  await readStock(service);
  expect(readings.mock.lastCall?.[1]).toMatchObject({ timeout: 25_000 }); // docs/interface.md
  const [[, deadline] = []] = submitted.mock.calls;
  expect(deadline).toBeGreaterThanOrEqual(startedAt + 25_000);
  expect(deadline).toBeLessThan(performance.now() + 25_000);
});

it('a reading takes 1,024 pets a statement', async () => {
  await service.database.fill(`SELECT n, 0, 'sold' FROM generate_series(1, 2049) n`);
  await atTestEnd(() => service.sql('TRUNCATE inventory_item'));
  const sent = vi.spyOn(Client.prototype, 'query');
  onTestFinished(() => sent.mockRestore());
  await readStock(service);
  const texts = sent.mock.calls.map(([query]) => (query as unknown as { text?: string }).text);
  expect(texts.filter((text) => text?.includes('"inventory_item"'))).toHaveLength(3);
});

it('a reading is not tried again in the last 400 ms, in which the database has to begin at least', async () => {
  await service.sql('ALTER TABLE inventory_item RENAME TO kept_aside');
  await atTestEnd(() => service.sql('ALTER TABLE kept_aside RENAME TO inventory_item'));
  const readings = watchReadings();
  const timers = vi.spyOn(globalThis, 'setTimeout');
  const cleared = vi.spyOn(globalThis, 'clearTimeout');
  onTestFinished(() => [timers, cleared].forEach((spy) => spy.mockRestore()));
  await expect(readStock(service, 390)).rejects.toBeInstanceOf(NotApplied);
  expect(readings).toHaveBeenCalledOnce();
  const delays = timers.mock.calls.map(([, ms]) => ms);
  expect(delays).toContain(400);
  expect(cleared.mock.calls.flat()).toContain(timers.mock.results[delays.indexOf(400)]?.value);
});
