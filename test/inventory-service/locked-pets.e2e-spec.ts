import { setTimeout as pause } from 'node:timers/promises';
import type { Client } from 'pg';
import { beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { asApiError } from '../../src/errors/error.filter.ts';
import { laterThan } from '../support/later-than.ts';
import type { TestService } from '../support/service.ts';
import { UPDATE, setQuantity, stockOf } from '../support/updates.ts';
import { itemOf } from '../support/stock.ts';
import { eachService } from './services.ts';

eachService(({ start }) => {
  describe('while another session holds a pet', () => {
    let service: TestService;
    let holder: Client;

    beforeAll(async () => {
      service = await start({ settings: { REQUEST_DEADLINE_MS: '2500' } });
    });
    beforeEach(async () => {
      await service.stock([1, 1], [2, 2]);
      holder = await service.database.session('SELECT FROM inventory_item WHERE pet_id = 1 FOR UPDATE');
    });

    it('an update of the pet waits without a connection, and updates of other pets do not wait', async () => {
      const locked = setQuantity(service, { quantity: 100 });
      for (let quantity = 0; quantity < 20; quantity++) {
        expect(await setQuantity(service, { petId: 2n, quantity })).toMatchObject({ outcome: 'done' });
        expect(await service.database.waitingForLocks()).toBe(0);
      }
      expect(await Promise.race([locked, pause(100, 'waits')])).toBe('waits'); // that it goes on waiting, nothing shows
      await holder.end();
      expect(await locked).toMatchObject({ outcome: 'done' });
    });

    it('an update does not wait if the other session only refers to the pet', async () => {
      await holder.query('ROLLBACK; BEGIN; SELECT FROM inventory_item WHERE pet_id = 1 FOR KEY SHARE');
      expect(await setQuantity(service, { quantity: 100 })).toMatchObject({ outcome: 'done' });
    });

    it('an update sees what the other session committed', async () => {
      const locked = setQuantity(service, { quantity: 100, ifMatch: ['available-1'] });
      await holder.query('UPDATE inventory_item SET quantity = 50 WHERE pet_id = 1; COMMIT');
      expect(await locked).toEqual({ outcome: 'precondition_failed', tag: '"available-50"' });
    });

    it('an update is not_found once the other session removed the pet, and done once it replaced the pet', async () => {
      const removed = setQuantity(service, { quantity: 100 });
      await holder.query('DELETE FROM inventory_item WHERE pet_id = 1; COMMIT');
      expect(await removed).toEqual({ outcome: 'not_found' });
      await service.stock([1, 1]);
      await holder.query('BEGIN; DELETE FROM inventory_item WHERE pet_id = 1');
      const replaced = setQuantity(service, { quantity: 100 });
      await holder.query(`INSERT INTO inventory_item VALUES (1, 1, 'sold'); COMMIT`);
      expect(await replaced).toEqual({ outcome: 'done', item: itemOf(1n, 100, 'sold') });
    });

    it.each([
      ['between two attempts', '', /^Another transaction holds this pet/],
      [
        'during an attempt',
        'LOCK TABLE inventory_item',
        /^(Another transaction holds this pet|The database cannot be used)/,
      ],
    ])('an update fails at its deadline, %s, and writes nothing', async (_, lock, message) => {
      const patienceMs = 1_800;
      const update = service.inventory.setQuantity({ ...UPDATE, quantity: 100 }, performance.now() + patienceMs);
      const failure = Promise.race([update.catch(asApiError), laterThan(patienceMs, asApiError('nothing'))]);
      await pause(600); // until the first attempts have ended; nothing shows their end
      await holder.query(lock);
      const { code, message: found } = asApiError(await failure);
      expect([code, found]).toEqual(['service_unavailable', expect.stringMatching(message)]);
      await holder.end();
      expect(await stockOf(service)).toMatchObject([{ quantity: 1 }, { quantity: 2 }]);
    });
  });

  describe('while a session replaces pets again and again', () => {
    it('updates are done, and not_found is for a pet that is not there', async () => {
      const service = await start();
      await service.stock([1, 1], [2, 2]);
      let isReplacing = true as boolean;
      const replacer = await service.database.session();
      const replacing = (async () => {
        while (isReplacing)
          await replacer.query(
            `BEGIN; DELETE FROM inventory_item; INSERT INTO inventory_item VALUES (1, 1, 'sold'), (2, 2, 'sold'); COMMIT`,
          );
      })();
      onTestFinished(() => void (isReplacing = false));
      const statuses: number[] = [];
      const update = async (pet: number) => {
        while (statuses.length < 60) statuses.push((await service.update(pet, 7)).status);
      };
      await Promise.all([1, 2, 1, 2].map(update));
      isReplacing = false;
      await replacing;
      expect(new Set(statuses)).toEqual(new Set([200]));
      expect((await service.update(3, 7)).status).toBe(404);
    });
  });
});
