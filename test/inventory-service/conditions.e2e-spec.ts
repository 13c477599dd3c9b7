import { setTimeout as pause } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { type WholeAnswer, refused, updated, whole } from '../support/answers.ts';
import type { TestService } from '../support/service.ts';
import { changesOf } from '../support/updates.ts';
import { eachService } from './services.ts';

eachService(({ start }) => {
  let service: TestService;

  beforeAll(async () => {
    service = await start();
  });

  async function setQuantity(petId: number, quantity: number, ...ifMatch: readonly string[]) {
    const headers = ifMatch.map((field) => ['If-Match', field] as const);
    return whole(await service.update(petId, quantity, headers));
  }

  async function expectUnchanged(ifMatch: string, expected: WholeAnswer): Promise<void> {
    await service.sql('DELETE FROM inventory_item');
    await service.stock([51, 5, 'pending']);
    expect(await setQuantity(51, 6, ifMatch)).toEqual(expected);
    expect(await service.sql('SELECT quantity FROM inventory_item WHERE pet_id = 51')).toEqual([{ quantity: 5 }]);
    expect(await changesOf(service, 51)).toEqual([]);
  }

  describe('PATCH /v1/inventory/:petId, If-Match', () => {
    it.each([
      ['"pending-5"'],
      ['*'],
      ['"available-5","pending-5", "pending-6"'],
      ['"x"', '"pending-5"'],
      ['W/"pending-5", "pending-5"'],
    ])('matches pending-5: %s %s', async (...fields) => {
      await service.stock([50, 5, 'pending']);
      expect(await setQuantity(50, 6, ...fields)).toEqual(updated('50', 6, 'pending'));
    });

    it.each([
      ...['"sold-0", "available-5"', 'W/"pending-5"', '"pending-6", W/"pending-5"'], // weak ones are nginx's and CDNs'
      ...['"pending-5-gzip"', '"pending-5;gzip"', '"pending-05"', '"*"', '"pending-5\xe4"'], // Apache, Jetty, others
    ])('does not match pending-5: %s', (field) => expectUnchanged(field, refused.precondition('"pending-5"')));

    it('ignores the tag of the list', async () => {
      const { headers } = await service.list();
      await expectUnchanged(headers['etag'] ?? '', refused.precondition('"pending-5"'));
    });

    it('says of a weak tag that it never matches, also when an Idempotency-Key comes with it', async () => {
      await service.stock([53, 5, 'pending']);
      const headers = [
        ['If-Match', 'W/"pending-5"'],
        ['Idempotency-Key', 'weak-1'],
      ] as const;
      expect(whole(await service.update(53, 6, headers))).toEqual(refused.precondition('"pending-5"'));
    });

    it.each(['*', '"available-5"'])('gives 404 for a missing pet: %s', async (field) => {
      expect(await setQuantity(99, 6, field)).toEqual(refused.noPet);
    });

    it('lets one of twenty concurrent updates by two services succeed', async () => {
      const other = await start({ databaseUrl: service.database.url, key: service.key });
      await service.stock([52, 0]);
      const release = await service.database.lockRow(52);
      const updates = Array.from({ length: 10 }, (_, n) =>
        [service, other].map(({ update }) => update(52, n + 1, [['If-Match', '"available-0"']])),
      );
      await pause(200); // until both have met the lock, which nothing tells
      await release();
      const statuses = (await Promise.all(updates.flat())).map(({ status }) => status);
      expect(statuses.sort()).toEqual([200, ...Array<number>(19).fill(412)]);
    });
  });
});
