import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { beforeAll, expect, it } from 'vitest';
import type { PetStatus } from '../../src/generated/prisma/enums.ts';
import type { QuantityUpdate } from '../../src/inventory/inventory.ts';
import type { TestService } from '../support/service.ts';
import { type UpdateResult, UPDATE, setQuantity, stockOf } from '../support/updates.ts';
import { itemOf } from '../support/stock.ts';
import { eachService } from './services.ts';

const quantity = fc.integer({ min: 0, max: 3 });
const status = fc.constantFrom<PetStatus>('available', 'sold');
const tag = fc.tuple(status, quantity).map((parts) => parts.join('-'));
const petId = fc.bigInt(1n, 4n);

/** Updates that arrive together, after somebody else has added, set or removed some pets. */
const round = fc.record({
  before: fc.array(fc.record({ petId, quantity, status: fc.option(status) }), { maxLength: 2 }),
  updates: fc.array(
    fc.record({
      petId,
      quantity,
      ifMatch: fc.option(fc.array(tag, { maxLength: 3 }), { freq: 2 }),
      idempotencyKey: fc.option(fc.constantFrom('a', 'b', 'c'), { freq: 2 }),
      reason: fc.option(fc.constantFrom('return', 'count')),
    }),
    { minLength: 1, maxLength: 8 },
  ),
});

/** What the contract says, in a few lines. */
class Model {
  readonly stock = new Map<bigint, { quantity: number; status: PetStatus }>();
  readonly history: unknown[] = [];
  readonly #first = new Map<string, { content: string; result: UpdateResult }>();

  setQuantity({ petId, quantity, ifMatch, idempotencyKey, reason, requestId }: QuantityUpdate): unknown {
    const content = JSON.stringify([String(petId), quantity, ifMatch]);
    const first = idempotencyKey === null ? undefined : this.#first.get(idempotencyKey);
    if (first)
      return first.content === content
        ? { ...first.result, outcome: 'replayed' }
        : { outcome: 'idempotency_key_reused' };
    const pet = this.stock.get(petId);
    if (!pet) return { outcome: 'not_found' };
    const present = `${pet.status}-${pet.quantity}`;
    if (ifMatch && !ifMatch.includes(present)) return { outcome: 'precondition_failed', tag: `"${present}"` };
    this.history.push({
      pet_id: String(petId),
      before: present,
      after: `${pet.status}-${quantity}`,
      reason,
      request_id: requestId,
    });
    this.stock.set(petId, { ...pet, quantity });
    const result: UpdateResult = { outcome: 'done', item: itemOf(petId, quantity, pet.status) };
    if (idempotencyKey !== null) this.#first.set(idempotencyKey, { content, result });
    return result;
  }
}

eachService(({ start }) => {
  let service: TestService;

  beforeAll(async () => {
    service = await start();
  });

  it('any updates have the outcomes, the stock and the history that the contract says', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(round, { minLength: 1, maxLength: 5 }), async (rounds) => {
        const model = new Model();
        const run = randomUUID();
        await service.sql('DELETE FROM inventory_item');
        for (const { before, updates } of rounds) {
          for (const { petId, quantity, status } of before) {
            if (status === null) await service.sql('DELETE FROM inventory_item WHERE pet_id = $1', [petId]);
            else await service.stock([petId, quantity, status]);
            if (status === null) model.stock.delete(petId);
            else model.stock.set(petId, { quantity, status });
          }
          const petOf = new Map<string | null, bigint>();
          const requested = updates
            // Of two pets with the same key at the same time, either may be first.
            .filter(({ petId, idempotencyKey: key }) => {
              if (key !== null && !petOf.has(key)) petOf.set(key, petId);
              return key === null || petOf.get(key) === petId;
            })
            // With a key, a condition that does not hold is tried again: another update of the pet may come before.
            .filter(({ petId, ifMatch, idempotencyKey: key }, _, all) => {
              return ifMatch === null || key === null || all.filter((each) => each.petId === petId).length === 1;
            })
            .map(({ idempotencyKey: key, ...update }) => {
              const idempotencyKey = key && `${key}-${run}`;
              return { ...UPDATE, ...update, idempotencyKey, requestId: randomUUID(), changedBy: `key:${run}` };
            });
          const results = await Promise.all(requested.map((update) => setQuantity(service, update)));
          expect(results).toEqual(requested.map((update) => model.setQuantity(update)));
        }
        const stock = [...model.stock].sort(([one], [other]) => Number(one - other));
        expect(await stockOf(service)).toEqual(stock.map(([id, pet]) => ({ pet_id: String(id), ...pet })));
        const history = await service.sql<{ request_id: string }>(
          `SELECT pet_id, status_before || '-' || quantity_before AS before, status_after || '-' || quantity_after AS after,
                  reason, request_id FROM stock_change WHERE changed_by = $1 ORDER BY id`,
          [`key:${run}`],
        );
        const ofPet = (rows: readonly unknown[], id: bigint) =>
          rows.filter((row) => (row as { pet_id: string }).pet_id === String(id));
        for (const id of [1n, 2n, 3n, 4n]) expect(ofPet(history, id)).toEqual(ofPet(model.history, id));
      }),
      { numRuns: 30, interruptAfterTimeLimit: 3_000, markInterruptAsFailure: false },
    );
  });
});
