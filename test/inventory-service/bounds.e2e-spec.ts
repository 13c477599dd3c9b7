import { describe, expect, it } from 'vitest';
import { asApiError } from '../../src/errors/error.filter.ts';
import { laterThan } from '../support/later-than.ts';
import type { TestService } from '../support/service.ts';
import { readStock } from '../support/stock-lists.ts';
import { setQuantity } from '../support/updates.ts';
import { eachService } from './services.ts';

/** How long each of many updates took, and its outcome, or the code of its Error. */
function updateAll(service: TestService, petIds: readonly number[], patienceMs: number) {
  const from = performance.now();
  return petIds.map(async (petId) => {
    const { outcome } = await setQuantity(service, { petId: BigInt(petId), quantity: 5 }, patienceMs);
    return { outcome, tookMs: performance.now() - from };
  });
}

const pets = (count: number) => Array.from({ length: count }, (_, at) => at + 1);

eachService(({ start }) => {
  describe('at most MAX_WAITING_REQUESTS updates wait', () => {
    it('and more are refused at once', async () => {
      const service = await start({ settings: { MAX_WAITING_REQUESTS: '3' } });
      await service.stock(...pets(20).map((pet) => [pet, 0] as const));
      expect((await service.update(1, 1)).status).toBe(200);
      const holder = await service.database.session('LOCK TABLE inventory_item');
      const refused: number[] = [];
      const outcomes = updateAll(service, pets(20), 9_000).map(async (update) => {
        const { outcome, tookMs } = await update;
        if (outcome === 'service_unavailable') refused.push(tookMs);
        return outcome;
      });
      await expect.poll(() => refused.length).toBeGreaterThanOrEqual(13); // three wait, and four at most are under way
      await holder.end();
      expect(new Set(await Promise.all(outcomes))).toEqual(new Set(['service_unavailable', 'done']));
    });
  });

  describe('an overloaded service', () => {
    it('gives the outcome of each update by its deadline', async () => {
      const service = await start({ settings: { REQUEST_DEADLINE_MS: '2500' } });
      await service.database.fill(`SELECT n, 0, 'available' FROM generate_series(1, 2000) n`);
      await service.sql(
        `CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.02); RETURN NEW; END';
         CREATE TRIGGER slow BEFORE UPDATE ON inventory_item FOR EACH ROW EXECUTE FUNCTION slow()`,
      );
      const patienceMs = 2_500;
      const updates = updateAll(service, pets(2_000), patienceMs).map(async (update) => (await update).outcome);
      const nothing = laterThan(patienceMs, 'nothing');
      const late = updates.map((outcome) => Promise.race([outcome, nothing]));
      const outcomes = new Set(await Promise.all(late));
      expect([...outcomes]).not.toContain('nothing');
      expect([...outcomes]).toContain('service_unavailable');
    });
  });

  describe('at most MAX_WAITING_REQUESTS lists wait', () => {
    it('and more are refused at once', async () => {
      const service = await start({ settings: { MAX_WAITING_REQUESTS: '3' } });
      await service.stock([1, 0]);
      const holder = await service.database.session('LOCK TABLE inventory_item');
      let refused = 0;
      const outcomes = pets(20).map(async () => {
        const outcome = await readStock(service).then(
          () => '200',
          (error: unknown) => asApiError(error).code,
        );
        if (outcome !== '200') refused++;
        return outcome;
      });
      await expect.poll(() => refused).toBeGreaterThanOrEqual(14); // three wait, and three at most are under way
      await holder.end();
      expect(new Set(await Promise.all(outcomes))).toEqual(new Set(['service_unavailable', '200']));
    });
  });
});
