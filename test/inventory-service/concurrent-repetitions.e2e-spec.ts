import { randomUUID } from 'node:crypto';
import { beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { refused, replayed, updated, whole } from '../support/answers.ts';
import type { HeaderLines } from '../support/http-client.ts';
import type { TestService } from '../support/service.ts';
import { changesOf, setQuantity } from '../support/updates.ts';
import { eachService } from './services.ts';

eachService(({ start }) => {
  let service: TestService;
  /** Another process with the same key, behind a network that can fail. */
  let other: TestService;
  let network: TcpProxy;
  /** The author that the history names for the key. */
  let author: string;

  beforeAll(async () => {
    service = await start();
    other = await start({
      databaseUrl: service.databaseUrl,
      key: service.key,
      behind: (url) => (network = new TcpProxy(url)).listen(),
    });
    const [{ id } = {}] = await service.sql<{ id: string }>('SELECT id FROM api_key');
    author = `key:${id}`;
  });
  beforeEach(async () => {
    await service.sql('DELETE FROM inventory_item');
    await service.stock([1, 10], [2, 20, 'sold']);
  });

  interface Update {
    readonly key?: string;
    readonly petId?: number;
    readonly quantity?: number;
    readonly ifMatch?: string;
  }

  async function update({ key, petId = 1, quantity = 11, ifMatch }: Update, by = service) {
    const condition: HeaderLines = ifMatch === undefined ? [] : [['If-Match', ifMatch]];
    const ownKey: HeaderLines = key === undefined ? [] : [['Idempotency-Key', key]];
    return whole(await by.update(petId, quantity, [...condition, ...ownKey]));
  }
  const quantitiesOf = async (petId: number) => (await changesOf(service, petId)).map(({ after }) => after);
  const quantityOf = async (petId: number) =>
    (await service.sql('SELECT quantity FROM inventory_item WHERE pet_id = $1', [petId]))[0]?.['quantity'];

  describe.each([
    ['in one process', () => service],
    ['in two processes', () => other],
  ])('two updates with the same Idempotency-Key at the same time, %s', (_, second) => {
    const ROUNDS = 5;

    it('change the stock once and both get 200', async () => {
      for (let round = 0; round < ROUNDS; round++) {
        const one = { key: randomUUID(), quantity: 100 + round };
        const answers = await Promise.all([update(one), update(one, second())]);
        expect(answers).toContainEqual(updated('1', one.quantity));
        expect(answers).toContainEqual(replayed('1', one.quantity));
      }
      expect(await quantitiesOf(1)).toEqual(Array.from({ length: ROUNDS }, (_, round) => 100 + round));
    });

    it('both get 200 when they have an If-Match too', async () => {
      for (let round = 0; round < ROUNDS; round++) {
        const one = { key: randomUUID(), quantity: 11 + round, ifMatch: `"sold-0", "available-${10 + round}"` };
        const answers = await Promise.all([update(one), update(one, second())]);
        expect(answers.map(({ status }) => status)).toEqual([200, 200]);
      }
    });

    it('get 200 and 409 when they update different pets', async () => {
      const keys = Array.from({ length: ROUNDS }, () => randomUUID());
      for (const key of keys) {
        const sent = [update({ key }), update({ key, petId: 2 }, second()), update({ petId: 2 })];
        const [one, another, unkeyed] = await Promise.all(sent);
        expect([one?.status, another?.status].toSorted()).toEqual([200, 409]);
        expect(unkeyed).toEqual(updated('2', 11, 'sold'));
      }
      expect(await service.sql('SELECT FROM stock_change WHERE idempotency_key = ANY ($1)', [keys])).toHaveLength(
        ROUNDS,
      );
    });
  });

  describe('a repetition while the first request is under way', () => {
    const record = (petId: number, key: string, tag?: string) =>
      `UPDATE inventory_item SET quantity = 11 WHERE pet_id = ${petId};
       INSERT INTO stock_change (pet_id, quantity_before, quantity_after, status_before, status_after, changed_by, idempotency_key, if_match_sha256)
       VALUES (${petId}, 10, 11, 'available', 'available', '${author}', '${key}', ${tag ? `sha256('${tag}')` : 'NULL'})`;

    it('waits for the first request, and gets the same answer', async () => {
      const key = randomUUID();
      const first = await service.database.session(
        `SELECT set_config('inventory.recorded_in', pg_current_xact_id()::text, true); ${record(1, key)}`,
      );
      const repetition = update({ key });
      expect(await update({ petId: 2 })).toEqual(updated('2', 11, 'sold'));
      await first.query('COMMIT');
      expect(await repetition).toEqual(replayed('1', 11));
      expect(await quantityOf(1)).toBe(11);
    });

    it.each([
      ['deleted', undefined, 'DELETE FROM inventory_item'],
      ['changed', 'available-10', 'UPDATE inventory_item SET quantity = 12'],
    ])('gets the same answer when the pet was %s meanwhile', async (_, tag, change) => {
      const key = randomUUID();
      // In this mode, the plain service waits after it has looked for the key.
      const first = await service.database.session(
        `LOCK TABLE inventory_item IN EXCLUSIVE MODE; ${record(1, key, tag)}`,
      );
      const repetition = update({ key, ...(tag && { ifMatch: `"${tag}"` }) });
      await expect.poll(() => service.database.waitingForLocks(), { interval: 10 }).toBe(1);
      await first.query(`${change}; COMMIT`);
      expect(await repetition).toEqual(replayed('1', 11));
    });

    it('changes the stock when the first request is rolled back', async () => {
      const key = randomUUID();
      const first = await service.database.session(record(1, key));
      const repetition = update({ key });
      await first.query('ROLLBACK');
      expect(await repetition).toEqual(updated('1', 11));
    });

    it('gets 409 when the key was committed for another update', async () => {
      const key = randomUUID();
      const first = await service.database.session(record(2, key));
      const late = update({ key });
      await expect.poll(() => service.database.waitingForLocks(), { interval: 10 }).toBe(1);
      await first.query('COMMIT');
      expect(await late).toEqual(refused.reusedKey);
      expect(await quantityOf(1)).toBe(10);
    });

    it('gets the first answer when the connection was cut after the commit', async () => {
      const key = randomUUID();
      await setQuantity(other, { petId: 2n }); // opens the connection
      network.cutBeforeAnswer(1);
      const first = { changedBy: author, quantity: 11, idempotencyKey: key };
      expect(await setQuantity(other, first)).toEqual({ outcome: 'outcome_unknown' });
      expect(await update({ key }, other)).toEqual(replayed('1', 11));
      expect(await quantitiesOf(1)).toEqual([11]);
    });

    it('changes the stock once when a frozen network delayed the first request', async () => {
      const key = randomUUID();
      await update({ petId: 2 }, other);
      network.silence();
      onTestFinished(() => network.speak());
      const first = update({ key }, other);
      expect(await update({ key })).toEqual(updated('1', 11));
      network.speak();
      expect(await first).toEqual(replayed('1', 11));
      expect(await quantitiesOf(1)).toEqual([11]);
    });
  });
});
