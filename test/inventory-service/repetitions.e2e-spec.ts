import { randomUUID } from 'node:crypto';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { refused, replayed, updated, whole } from '../support/answers.ts';
import type { HeaderLines } from '../support/http-client.ts';
import { type TestService, startService } from '../support/service.ts';
import { changesOf, setQuantity } from '../support/updates.ts';
import { eachService } from './services.ts';

eachService(({ start }) => {
  /** Two processes with the same key. */
  let service: TestService;
  let other: TestService;

  beforeAll(async () => {
    service = await start();
    other = await start({ databaseUrl: service.databaseUrl, key: service.key });
  });
  beforeEach(async () => {
    await service.sql('DELETE FROM inventory_item');
    await service.stock([1, 10], [2, 20, 'sold']);
  });

  interface Update {
    readonly key: string;
    readonly petId?: number;
    readonly quantity?: number;
    readonly ifMatch?: string;
  }

  async function update({ key, petId = 1, quantity = 11, ifMatch }: Update, by = service) {
    const condition: HeaderLines = ifMatch === undefined ? [] : [['If-Match', ifMatch]];
    return whole(await by.update(petId, quantity, [...condition, ['Idempotency-Key', key]]));
  }
  const quantitiesOf = async (petId: number) => (await changesOf(service, petId)).map(({ after }) => after);
  const quantityOf = async (petId: number) =>
    (await service.sql('SELECT quantity FROM inventory_item WHERE pet_id = $1', [petId]))[0]?.['quantity'];

  describe('an update with an Idempotency-Key', () => {
    it('changes the stock once, and a repetition is answered as the first request, in every process', async () => {
      const first = { key: randomUUID(), petId: 2 };
      expect(await update(first)).toEqual(updated('2', 11, 'sold'));
      for (const by of [service, other]) expect(await update(first, by)).toEqual(replayed('2', 11, 'sold'));
      const conditional = { ...first, key: randomUUID(), quantity: 12, ifMatch: String.raw`"\a", "sold-11"` };
      expect(await update(conditional)).toEqual(updated('2', 12, 'sold'));
      for (const by of [service, other]) expect(await update(conditional, by)).toEqual(replayed('2', 12, 'sold'));
      expect(await quantitiesOf(2)).toEqual([11, 12]);
    });

    it('is answered as before when the pet was changed, locked or deleted since', async () => {
      const first = { key: randomUUID() };
      await update(first);
      await service.sql(`UPDATE inventory_item SET quantity = 50, status = 'pending' WHERE pet_id = 1`);
      expect(await update(first)).toEqual(replayed('1', 11));
      expect(await quantityOf(1)).toBe(50);
      const unlock = await service.database.lockRow(1);
      expect(await update(first)).toEqual(replayed('1', 11));
      await unlock();
      await service.sql('DELETE FROM inventory_item WHERE pet_id = 1');
      expect(await update(first)).toEqual(replayed('1', 11));
      expect(await quantityOf(1)).toBeUndefined();
    });

    it('takes place again when its row of the history was pruned', async () => {
      const first = { key: randomUUID() };
      await update(first);
      await update({ key: randomUUID(), quantity: 12 });
      await service.sql(`BEGIN; SET LOCAL inventory.history = 'prune';
        DELETE FROM stock_change WHERE idempotency_key = '${first.key}'; COMMIT`);
      expect(await update(first)).toEqual(updated('1', 11));
      expect(await quantitiesOf(1)).toEqual([12, 11]);
    });

    it.each([
      ['pet', { petId: 2 }],
      ['quantity', { quantity: 12 }],
      ['If-Match', { ifMatch: '"available-10", "available-11"' }],
    ])('gets 409 when its key belongs to an update with another %s', async (_, different) => {
      const first = { key: randomUUID(), ifMatch: '"available-10"' };
      await update(first);
      for (const by of [service, other])
        expect(await update({ ...first, ...different }, by)).toEqual(refused.reusedKey);
      expect([await quantitiesOf(1), await quantitiesOf(2)]).toEqual([[11], []]);
      expect([await quantityOf(1), await quantityOf(2)]).toEqual([11, 20]);
    });

    it.each([
      ['*', undefined],
      [undefined, '*'],
      ['"available-10", W/"available-9"', '"available-10"'],
    ])('is compared without If-Match: * and weak tags: %s, then %s', async (ifMatch, again) => {
      const key = randomUUID();
      const withField = (field: string | undefined) => ({ key, ...(field !== undefined && { ifMatch: field }) });
      expect(await update(withField(ifMatch))).toEqual(updated('1', 11));
      expect(await update(withField(again))).toEqual(replayed('1', 11));
    });

    it('has a key of its own for each API key', async () => {
      const key = randomUUID();
      const stranger = `another-key-${randomUUID()}`;
      await service.addKey(stranger);
      const headers = {
        Authorization: `Bearer ${stranger}`,
        'Content-Type': 'application/json',
        'Idempotency-Key': key,
      };
      const request = { method: 'PATCH', headers, body: '{"quantity":11}' };
      const ofStranger = async () => {
        const { status, headers: sent } = await fetch(`${service.url}/v1/inventory/2`, request);
        return { status, isReplayed: sent.get('idempotent-replayed') };
      };
      expect(await update({ key })).toEqual(updated('1', 11));
      expect(await ofStranger()).toEqual({ status: 200, isReplayed: null });
      expect(await ofStranger()).toEqual({ status: 200, isReplayed: 'true' });
    });

    it('leaves its key unused when it is refused', async () => {
      const key = randomUUID();
      expect(await update({ key, petId: 99 })).toEqual(refused.noPet);
      expect(await update({ key, ifMatch: '"available-9"' })).toEqual(refused.precondition('"available-10"'));
      expect(await update({ key, quantity: -1 })).toEqual(refused.quantity('smaller'));
      expect(await update({ key })).toEqual(updated('1', 11));
    });

    it('fails alone when its key is refused: updates of the same pet beside it succeed', async () => {
      const [used, fresh] = [randomUUID(), randomUUID()];
      await setQuantity(service, { quantity: 11, idempotencyKey: used });
      const results = await Promise.all(
        [
          { petId: 1n, quantity: 4, idempotencyKey: used },
          { petId: 2n, quantity: 1 },
          { petId: 2n, quantity: 2, idempotencyKey: fresh },
          { petId: 2n, quantity: 3 },
          { petId: 2n, quantity: 4, idempotencyKey: used },
        ].map((each) => setQuantity(service, each)),
      );
      const reused = 'idempotency_key_reused';
      expect(results.map(({ outcome }) => outcome)).toEqual([reused, 'done', 'done', 'done', reused]);
      expect(await quantitiesOf(2)).toEqual([1, 2, 3]);
      expect(await quantityOf(2)).toBe(3);
    });

    it('has its condition in the history, which no other update has there', async () => {
      const ifMatch = ['available-10', 'sold-20'];
      await Promise.all([
        setQuantity(service, { petId: 1n, ifMatch }),
        setQuantity(service, { petId: 2n, ifMatch, idempotencyKey: randomUUID() }),
      ]);
      const digests = await service.sql(
        `SELECT DISTINCT ON (pet_id) if_match_sha256 = sha256('available-10 sold-20') AS has
           FROM stock_change ORDER BY pet_id, id DESC`,
      );
      expect(digests).toEqual([{ has: null }, { has: true }]);
    });
  });
});

it.each([
  ['on', 'off'],
  ['off', 'on'],
])('a service with FAST=%s knows the keys of one with FAST=%s', async (FAST, others) => {
  const service = await startService({ settings: { FAST } });
  const other = await startService({ databaseUrl: service.databaseUrl, key: service.key, settings: { FAST: others } });
  await service.stock([1, 10]);
  const headers: HeaderLines = [
    ['If-Match', '"available-9", "available-10"'],
    ['Idempotency-Key', 'one'],
  ];
  expect(whole(await other.update(1, 11, headers))).toEqual(updated('1', 11));
  expect(whole(await service.update(1, 11, headers))).toEqual(replayed('1', 11));
  expect(whole(await service.update(1, 12, headers))).toEqual(refused.reusedKey);
});
