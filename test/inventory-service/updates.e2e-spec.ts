import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { MAX_PET_ID, MIN_PET_ID } from '../../src/inventory/item-limits.ts';
import { updated, whole } from '../support/answers.ts';
import type { TestService } from '../support/service.ts';
import { itemText, listText, itemOf } from '../support/stock.ts';
import { atTestEnd } from '../support/test-end.ts';
import { UPDATE_KINDS, changesOf, setQuantity, stockOf } from '../support/updates.ts';
import { eachServiceDirectly } from './services.ts';

eachServiceDirectly(({ start }) => {
  let service: TestService;
  /** Another process. */
  let other: TestService;

  beforeAll(async () => {
    service = await start();
    other = await start({ databaseUrl: service.databaseUrl, key: service.key });
  });
  beforeEach(async () => {
    await service.sql('DELETE FROM inventory_item');
  });

  describe('an update', () => {
    it.each([
      ['-0', 0],
      ['5.0', 5],
      ['1e2', 100],
      ['5.00000000000000000001', 5], // JSON.parse rounds it to an integer
    ])('takes the quantity %s as %i', async (json, quantity) => {
      await service.stock([1, 7]);
      expect(whole(await service.update(1, `{"quantity":${json}}`))).toEqual(updated('1', quantity));
      expect(await stockOf(service)).toMatchObject([{ quantity }]);
    });

    // Not behind a pooler, which keeps the plans of its sessions until it reconnects.
    it('is made by sessions that have planned for another type of a column', async () => {
      await service.stock([1, 1], [2, 1], [3, 1]);
      const update = async () => {
        const results = [1n, 2n, 3n].map((petId) => setQuantity(service, { petId, quantity: 5 }));
        return (await Promise.all(results)).map(({ outcome }) => outcome);
      };
      expect(await update()).toEqual(['done', 'done', 'done']);
      await atTestEnd(() => service.sql('ALTER TABLE stock_change ALTER reason TYPE text'));
      await service.sql('ALTER TABLE stock_change ALTER reason TYPE varchar(64)');
      expect(await update()).toEqual(['done', 'done', 'done']);
    });

    it.each(UPDATE_KINDS)(
      '%s sets the quantity, keeps the status, and is recorded in the same transaction',
      async (_, members) => {
        await service.stock([1, 1], [2, 2], [3, 1, 'sold']);
        const ifMatch = members().ifMatch && ['sold-1'];
        const update = { ...members(), ifMatch: ifMatch ?? null, petId: 3n, quantity: 5, requestId: 'own' };
        const item = itemOf(3n, 5, 'sold');
        expect(await setQuantity(service, { ...update, reason: 'return' })).toEqual({ outcome: 'done', item });
        expect(await stockOf(service)).toMatchObject([
          { quantity: 1 },
          { quantity: 2 },
          { quantity: 5, status: 'sold' },
        ]);
        const history = await service.sql(
          `SELECT quantity_before, quantity_after, status_before, status_after, changed_by, request_id, reason,
                  change.xmin = item.xmin AS in_its_transaction
             FROM stock_change AS change JOIN inventory_item AS item USING (pet_id) WHERE pet_id = 3 ORDER BY id DESC LIMIT 1`,
        );
        expect(history).toEqual([
          {
            ...{ quantity_before: 1, quantity_after: 5, status_before: 'sold', status_after: 'sold' },
            ...{ changed_by: 'key:test', request_id: 'own', reason: 'return', in_its_transaction: true },
          },
        ]);
        expect(await changesOf(service, 3)).toHaveLength(1);
      },
    );

    it('changes its pet and no neighbour, at the edges of int64 too', async () => {
      const ids = [MIN_PET_ID, MIN_PET_ID + 1n, 9007199254740992n, 9007199254740993n, MAX_PET_ID - 1n, MAX_PET_ID];
      await service.stock(...ids.map((id) => [id, 5] as const));
      for (const petId of ids.filter((_, at) => at % 2 === 1)) await setQuantity(service, { petId, quantity: 6 });
      expect(await stockOf(service)).toEqual(
        ids.map((id, at) => ({ pet_id: String(id), quantity: at % 2 === 1 ? 6 : 5, status: 'available' })),
      );
    });

    it('is in every list that is requested after its response, in every process', async () => {
      const pets = [1, 2, 3, 4];
      await service.stock(...pets.map((pet) => [pet, 0] as const));
      const write = async (pet: number) => {
        for (let quantity = 1; quantity <= 10; quantity++) {
          const by = (pet + quantity) % 2 === 0 ? service : other;
          expect((await by.update(pet, quantity)).status).toBe(200);
          const lists = await Promise.all([service.list(), other.list()]);
          for (const { text } of lists) expect(text).toContain(itemText(pet, quantity));
        }
      };
      await Promise.all(pets.map(write));
    });

    it.each(UPDATE_KINDS)(
      "%s, then changed by a trigger: the history has both, the response the update, the list the trigger's change",
      async (_, members) => {
        await service.stock([1, 1]);
        await service.sql(`CREATE FUNCTION cap() RETURNS trigger LANGUAGE plpgsql AS
          'BEGIN UPDATE inventory_item SET quantity = 9 WHERE quantity > 9; RETURN NULL; END';
        CREATE TRIGGER cap AFTER UPDATE ON inventory_item FOR EACH ROW EXECUTE FUNCTION cap()`);
        await atTestEnd(() => service.sql('DROP FUNCTION cap CASCADE'));
        expect(await setQuantity(service, { quantity: 10, ...members() })).toMatchObject({
          outcome: 'done',
          item: { quantity: 10 },
        });
        expect((await service.list()).text).toBe(listText([1, 9]));
        const history = await service.sql(
          'SELECT quantity_before AS before, quantity_after AS after FROM stock_change WHERE pet_id = 1 ORDER BY id DESC LIMIT 2',
        );
        expect(history).toEqual([
          { before: 10, after: 9 },
          { before: 1, after: 10 },
        ]);
      },
    );
  });

  describe('updates that arrive together', () => {
    it('have an outcome each, and the later ones of a pet see the earlier ones', async () => {
      await service.stock([1, 10], [2, 20, 'pending'], [3, 0, 'sold']);
      const results = await Promise.all(
        [
          { petId: 1n, quantity: 11 },
          { petId: 2n, quantity: 21, ifMatch: ['pending-20'] },
          { petId: 3n, quantity: 31, ifMatch: ['sold-1', 'available-0'] },
          { petId: 4n, quantity: 41 },
          { petId: 5n, quantity: 51, ifMatch: [] },
          { petId: 1n, quantity: 12, ifMatch: ['available-11'] },
          { petId: 1n, quantity: 13, ifMatch: ['available-11'] },
        ].map((update) => setQuantity(service, update)),
      );
      expect(results).toEqual([
        { outcome: 'done', item: itemOf(1n, 11) },
        { outcome: 'done', item: itemOf(2n, 21, 'pending') },
        { outcome: 'precondition_failed', tag: '"sold-0"' },
        { outcome: 'not_found' },
        { outcome: 'not_found' },
        { outcome: 'done', item: itemOf(1n, 12) },
        { outcome: 'precondition_failed', tag: '"available-12"' },
      ]);
      expect(await stockOf(service)).toEqual([
        { pet_id: '1', quantity: 12, status: 'available' },
        { pet_id: '2', quantity: 21, status: 'pending' },
        { pet_id: '3', quantity: 0, status: 'sold' },
      ]);
    });

    it('of one pet have a history row each, in their order', async () => {
      await service.stock([1, 0], [2, 0]);
      const quantities = Array.from({ length: 50 }, (_, at) => at + 1);
      const results = await Promise.all(
        quantities.map((quantity) => {
          const ifMatch = quantity % 10 === 0 ? [`available-${quantity - 1}`] : null;
          return setQuantity(service, { quantity, ifMatch, requestId: `request-${quantity}` });
        }),
      );
      expect(results.map((each) => 'item' in each && each.item.quantity)).toEqual(quantities);
      expect(await changesOf(service, 1)).toEqual(
        quantities.map((after) => ({ before: after - 1, after, request_id: `request-${after}` })),
      );
      expect(await stockOf(service)).toMatchObject([{ quantity: 50 }, { quantity: 0 }]);
    });
  });
});
