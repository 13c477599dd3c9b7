import fc from 'fast-check';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { MAX_PET_ID, MIN_PET_ID } from '../../src/inventory/item-limits.ts';
import type { TestService } from '../support/service.ts';
import { readStock } from '../support/stock-lists.ts';
import { type Pet, itemText, listText } from '../support/stock.ts';
import { atTestEnd } from '../support/test-end.ts';
import { eachService } from './services.ts';

const petsOf = (text: string) => text.match(/"petId":/g)?.length;

eachService(({ start }) => {
  let service: TestService;

  beforeAll(async () => {
    service = await start();
  });
  beforeEach(() => service.sql('TRUNCATE inventory_item'));

  async function withRowSecurity(): Promise<void> {
    await service.sql('ALTER TABLE inventory_item ENABLE ROW LEVEL SECURITY');
    await atTestEnd(() => service.sql('ALTER TABLE inventory_item DISABLE ROW LEVEL SECURITY'));
  }

  describe('GET /v1/inventory', () => {
    it('gives all pets in ascending order, with every digit, of any stock', async () => {
      const petId = fc.oneof(
        fc.bigInt(MIN_PET_ID, MAX_PET_ID),
        fc.bigInt(-3n, 3n),
        fc.constantFrom(MIN_PET_ID, MAX_PET_ID),
      );
      const quantity = fc.oneof(fc.integer({ min: 0, max: 2147483647 }), fc.constantFrom(0, 2147483647));
      const status = fc.constantFrom('available' as const, 'pending' as const, 'sold' as const);
      const stock = fc.uniqueArray(fc.tuple(petId, quantity, status), { selector: ([id]) => id, maxLength: 40 });
      await fc.assert(
        fc.asyncProperty(stock, async (pets: Pet[]) => {
          await service.sql('DELETE FROM inventory_item');
          await service.stock(...pets);
          expect((await service.list()).text).toBe(listText(...pets));
        }),
        { numRuns: 15 },
      );
    });

    it('gives [] while the store is empty', async () => {
      expect((await service.list()).text).toBe('[]');
    });

    // As many as a statement of the plain service brings, and one of the fast service.
    it.each([1_024, 6 * 1_024])('gives %i pets of which the last one has the greatest id', async (pets) => {
      await service.database.fill(`SELECT ${MAX_PET_ID} - n, 1, 'sold' FROM generate_series(0, ${pets - 1}) n`);
      const { text } = await service.list();
      expect(petsOf(text)).toBe(pets);
      expect(text.endsWith(`,${itemText(MAX_PET_ID, 1, 'sold')}]`)).toBe(true);
    });
  });

  describe('equal lists', () => {
    it.each([
      ['of an ordinary table', () => Promise.resolve()],
      ['of a table with row security, whose list the service does not keep', withRowSecurity],
    ])('are one list, %s', async (_, prepare) => {
      await service.database.fill(`SELECT n, 0, 'available' FROM generate_series(1, 3000) n`);
      await prepare();
      const first = await readStock(service);
      expect(await readStock(service)).toBe(first);
      await service.stock([1_500, 1]);
      const changed = await readStock(service);
      expect(changed.tag('identity')).not.toBe(first.tag('identity'));
      expect(changed.bytesNotIn(first)).toBeLessThan(changed.plain.length); // what did not change is shared
    });
  });

  describe('requests that come during a reading', () => {
    it('share the next one', async () => {
      await service.stock([1, 1]);
      const holder = await service.database.session('LOCK TABLE inventory_item');
      const { readings } = service.counts;
      const first = readStock(service);
      await expect.poll(() => service.database.waitingForLocks(), { interval: 5 }).toBe(1);
      const others = Array.from({ length: 10 }, () => readStock(service));
      await holder.query('UPDATE inventory_item SET quantity = 2; COMMIT');
      const lists = await Promise.all([first, ...others]);
      expect(new Set(lists).size).toBe(1);
      expect(service.counts.readings).toBe(readings + 2);
    });
  });
});
