import { randomUUID } from 'node:crypto';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { refused, whole } from '../support/answers.ts';
import { watchBatches } from '../support/batches.ts';
import type { TestService } from '../support/service.ts';
import { atTestEnd } from '../support/test-end.ts';
import { withTrigger } from '../support/triggers.ts';
import { UPDATE, UPDATE_KINDS, changesOf, setQuantity, stockOf } from '../support/updates.ts';
import { eachService } from './services.ts';

eachService(({ start }) => {
  let service: TestService;
  /** Another process, with a shorter deadline. */
  let hasty: TestService;

  beforeAll(async () => {
    service = await start();
    hasty = await start({ databaseUrl: service.databaseUrl, settings: { REQUEST_DEADLINE_MS: '2500' } });
  });
  beforeEach(async () => {
    await service.sql('DELETE FROM inventory_item');
  });

  /** Adds something to the tables until the test ends. */
  async function withRule(rule: string, undo: string): Promise<void> {
    await service.sql(rule);
    await atTestEnd(() => service.sql(undo));
  }

  /** What a rule refuses is not tried again until its deadline. */
  const expectFewAttempts = (attempts: readonly number[], updates: number) =>
    expect(attempts.reduce((sum, calls) => sum + calls)).toBeLessThan(3 * updates);

  /** A trigger that acts on rows with a quantity above 1,000. */
  const meddle = (event: string, act: string, quantity = 'quantity') =>
    withTrigger(service, event, `IF NEW.${quantity} > 1000 THEN ${act} END IF; RETURN NEW;`);

  it('a value that a constraint refuses fails alone, and the updates beside it are done', async () => {
    const pets = Array.from({ length: 20 }, (_, at) => at + 50);
    await service.stock(...pets.map((pet) => [pet, 0] as const));
    await withRule(
      'ALTER TABLE inventory_item ADD CONSTRAINT most CHECK (quantity <= 1000)',
      'ALTER TABLE inventory_item DROP CONSTRAINT most',
    );
    const quantityOf = (pet: number) => (pet % 7 === 0 ? 1_001 : pet);
    const requested = [...pets, 50].map((pet) => ({ petId: BigInt(pet), quantity: quantityOf(pet) }));
    const results = await Promise.all(requested.map((update) => setQuantity(service, update)));
    expect(results.map(({ outcome }) => outcome)).toEqual(
      requested.map(({ quantity }) => (quantity > 1_000 ? 'validation_failed' : 'done')),
    );
    expect(await stockOf(service)).toMatchObject(
      pets.map((pet) => ({ quantity: quantityOf(pet) > 1_000 ? 0 : quantityOf(pet) })),
    );
    expect(await changesOf(service, 50)).toMatchObject([
      { before: 0, after: 50 },
      { before: 50, after: 50 },
    ]);
    expect(await changesOf(service, 56)).toEqual([]);
    expect(whole(await service.update(50, 1_001))).toEqual(refused.rule);
  });

  it('ids of the history that are used up make an update 503, until the operator gives more', async () => {
    await service.stock([1, 1]);
    const limit = (to: string) => service.sql(`ALTER SEQUENCE stock_change_id_seq ${to}`);
    const [{ last } = {}] = await service.sql(
      `SELECT setval('stock_change_id_seq', nextval('stock_change_id_seq') + 1) AS last`,
    );
    await limit(`MAXVALUE ${String(last)}`);
    await atTestEnd(() => limit('NO MAXVALUE'));
    expect((await setQuantity(service, { petId: 1n, quantity: 2 })).outcome).toBe('service_unavailable');
    await limit('NO MAXVALUE');
    expect((await setQuantity(service, { petId: 1n, quantity: 2 })).outcome).toBe('done');
  });

  /** Raised as if by PostgreSQL itself, by Prisma's engine, or by a pooler; `INV01` is one of the operator's own. */
  const RAISED = 'INV01 42501 42703 42P01 42883 0A000 42P17 25006 08006 58030 F0000 HV000 XX000'.split(' ');
  /** Each of the quantities from 1,001 on has its SQLSTATE. */
  const veto = (codes: readonly string[]) =>
    `RAISE 'permission denied for table: %', NEW.quantity USING ERRCODE = ('{${codes.join()}}'::text[])[NEW.quantity - 1000];`;

  it.each([
    ['a trigger', 'BEFORE UPDATE ON inventory_item'],
    ['a trigger of the history', 'BEFORE INSERT ON stock_change', 'quantity_after'],
    ['a trigger at the commit', 'AFTER UPDATE ON inventory_item DEFERRABLE INITIALLY DEFERRED'],
  ])('a value is refused alone whatever SQLSTATE %s raises', async (_, event, quantity = 'quantity') => {
    const pets = Array.from({ length: 2 * RAISED.length }, (_, at) => at + 1);
    await service.stock(...pets.map((pet) => [pet, 0] as const));
    await meddle(event, veto(RAISED).replaceAll('NEW.quantity', `NEW.${quantity}`), quantity);
    const attempts = watchBatches('updates');
    const results = await Promise.all(
      pets.map((pet) => setQuantity(service, { petId: BigInt(pet), quantity: pet % 2 ? 1_001 + (pet - 1) / 2 : 7 })),
    );
    expectFewAttempts(attempts, pets.length);
    expect(results.map(({ outcome }) => outcome)).toEqual(pets.map((pet) => (pet % 2 ? 'validation_failed' : 'done')));
    expect(await stockOf(service)).toMatchObject(pets.map((pet) => ({ quantity: pet % 2 ? 0 : 7 })));
  });

  it('a value is refused when a function that a trigger or a constraint calls raises an error', async () => {
    await service.stock([1, 1]);
    await withRule(
      `CREATE FUNCTION allowed(quantity int) RETURNS boolean LANGUAGE plpgsql AS
         $$ BEGIN IF quantity = 1001 THEN RAISE 'no' USING ERRCODE = 'INV01'; END IF; RETURN true; END $$;
       ALTER TABLE inventory_item ADD CONSTRAINT allowed CHECK (allowed(quantity))`,
      'DROP FUNCTION allowed CASCADE',
    );
    await meddle('BEFORE UPDATE ON inventory_item', 'PERFORM allowed(NEW.quantity - 1);');
    for (const quantity of [1_001, 1_002])
      expect(await setQuantity(service, { quantity })).toEqual({ outcome: 'validation_failed' });
    const update = service.inventory.setQuantity({ ...UPDATE, quantity: 1_002 }, performance.now() + 9_000);
    await expect(update).rejects.toThrow(/^no \(INV01\)$/);
  });

  it('a value is refused when a function in SQL does not find its table', async () => {
    await service.stock([1, 1]);
    await withRule(
      `CREATE TABLE aside AS SELECT 1000 AS quantity;
       CREATE FUNCTION allowed(quantity int) RETURNS boolean LANGUAGE sql AS $$ SELECT $1 <= (SELECT max(quantity) FROM aside) $$;
       ALTER TABLE inventory_item ADD CONSTRAINT allowed CHECK (allowed(quantity)); DROP TABLE aside`,
      'DROP FUNCTION allowed CASCADE',
    );
    expect(whole(await service.update(1, 5))).toEqual(refused.rule);
    const update = service.inventory.setQuantity(UPDATE, performance.now() + 9_000);
    await expect(update).rejects.toThrow(/^.+ \(42P01\)$/);
  });

  it.each(['40001', '53100'])(
    'an update waits, and writes nothing, while a trigger raises %s (try again); one beside it is done',
    async (code) => {
      await service.stock([1, 1], [2, 2]);
      await meddle('BEFORE UPDATE ON inventory_item', `RAISE 'later' USING ERRCODE = '${code}';`);
      const results = await Promise.all([
        setQuantity(hasty, { quantity: 1_001 }, 900),
        setQuantity(hasty, { petId: 2n, quantity: 7 }), // with FAST=on, it shares each batch, and fails with it
      ]);
      expect(results).toMatchObject([{ outcome: 'service_unavailable' }, { outcome: 'done' }]);
      expect(await changesOf(service, 2)).toMatchObject([{ before: 2, after: 7 }]);
      const waiting = setQuantity(service, { quantity: 1_001 });
      await service.sql('ALTER TABLE inventory_item DISABLE TRIGGER meddle');
      expect(await waiting).toMatchObject({ outcome: 'done' });
      expect(await changesOf(service, 1)).toMatchObject([{ before: 1, after: 1_001 }]);
    },
  );

  it.each([
    ['at once', ''],
    ['at the commit', 'DEFERRABLE INITIALLY DEFERRED'],
  ])('a value that a unique rule refuses %s fails alone, and at once', async (_, when) => {
    await service.stock([1, 1], [2, 2], [3, 3]);
    await withRule(
      `ALTER TABLE inventory_item ADD CONSTRAINT own_rule UNIQUE (quantity) ${when}`,
      'ALTER TABLE inventory_item DROP CONSTRAINT own_rule',
    );
    const attempts = watchBatches('updates');
    const results = await Promise.all([
      setQuantity(service, { quantity: 2 }),
      setQuantity(service, { petId: 3n, quantity: 13, idempotencyKey: randomUUID() }),
    ]);
    expect(results.map(({ outcome }) => outcome)).toEqual(['validation_failed', 'done']);
    expect(whole(await service.update(1, 2))).toEqual(refused.rule);
    expectFewAttempts(attempts, 3);
    expect(await stockOf(service)).toMatchObject([{ quantity: 1 }, { quantity: 2 }, { quantity: 13 }]);
  });

  /** Pets 1 to 3 exist. `InventoryService` refuses more: its own tests have them. */
  it.each([
    ['keeps it back', 'RETURN NULL;'],
    ['lowers it', 'NEW.quantity := 1000;'],
    ['sets the status', `NEW.status := 'sold';`],
    ['gives the pet another id', 'NEW.pet_id := 99;'],
    ['writes the pet itself', 'UPDATE inventory_item SET quantity = 7 WHERE pet_id = NEW.pet_id;'],
    ['keeps its history back', '', 'RETURN NULL;'],
  ])('an update fails alone, and writes nothing, if a trigger %s', async (_, onStock, onHistory = '') => {
    await service.stock([1, 1], [2, 2], [3, 3]);
    if (onStock) await meddle('BEFORE UPDATE ON inventory_item', onStock);
    else await meddle('BEFORE INSERT ON stock_change', onHistory, 'quantity_after');
    const before = await stockOf(service);
    const alone = [
      await service.update(1, 1_001),
      await service.update(1, 1_001, [['If-Match', '"available-1"']]),
      await service.update(1, 1_001, [['Idempotency-Key', randomUUID()]]),
    ];
    expect(alone.map(whole)).toEqual([refused.rule, refused.rule, refused.rule]);
    expect(await stockOf(service)).toEqual(before);
    const beside = await Promise.all([
      setQuantity(service, { petId: 1n, quantity: 1_001 }),
      setQuantity(service, { petId: 2n, quantity: 12, ifMatch: ['available-2'] }),
      setQuantity(service, { petId: 3n, quantity: 13 }),
    ]);
    expect(beside.map(({ outcome }) => outcome)).toEqual(['validation_failed', 'done', 'done']);
    expect(await stockOf(service)).toMatchObject([{ quantity: 1 }, { quantity: 12 }, { quantity: 13 }]);
    expect(await changesOf(service, 1)).toEqual([]);
    expect(await changesOf(service, 2)).toMatchObject([{ before: 2, after: 12 }]);
    expect(await changesOf(service, 3)).toMatchObject([{ before: 3, after: 13 }]);
    const least = { petId: 1n, quantity: 1_000, idempotencyKey: randomUUID() };
    expect(await setQuantity(service, least)).toMatchObject({ outcome: 'done' });
  });

  it('an update whose history a trigger keeps back fails beside another of its pet and one with a key', async () => {
    await service.stock([1, 1], [2, 2]);
    await meddle('BEFORE INSERT ON stock_change', 'RETURN NULL;', 'quantity_after');
    const results = await Promise.all([
      setQuantity(service, { petId: 1n, quantity: 1_001 }),
      setQuantity(service, { petId: 1n, quantity: 11 }),
      setQuantity(service, { petId: 2n, quantity: 12, idempotencyKey: randomUUID() }),
    ]);
    expect(results.map(({ outcome }) => outcome)).toEqual(['validation_failed', 'done', 'done']);
    expect(await changesOf(service, 1)).toMatchObject([{ before: 1, after: 11 }]);
    expect(await stockOf(service)).toMatchObject([{ quantity: 11 }, { quantity: 12 }]);
  });

  it('columns of the operator may have the names that the statements use', async () => {
    await service.stock([1, 1], [2, 2]);
    const names = ['n', 'holds', 'is_last', 'is_same', 'if_match', 'present'];
    const alter = (act: (name: string) => string) =>
      `ALTER TABLE inventory_item ${names.map(act).join()}; ALTER TABLE stock_change ${[...names, 'quantity'].map(act).join()}`;
    await withRule(
      alter((name) => `ADD ${name} text`),
      alter((name) => `DROP ${name}`),
    );
    for (const [, members] of UPDATE_KINDS) {
      for (const pets of [[1n], [1n, 2n]]) {
        const results = await Promise.all(pets.map((petId) => setQuantity(service, { petId, ...members() })));
        expect(results.map(({ outcome }) => outcome)).toEqual(pets.map(() => 'done'));
      }
    }
  });

  describe('a trigger that writes only a column of its own', () => {
    it.each(UPDATE_KINDS)('lets an update %s be done', async (_, members) => {
      await service.stock([1, 1]);
      await withRule(
        `ALTER TABLE inventory_item ADD changed_on date;
         CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.changed_on := now(); RETURN NEW; END';
         CREATE TRIGGER stamp BEFORE UPDATE ON inventory_item FOR EACH ROW EXECUTE FUNCTION stamp()`,
        'DROP FUNCTION stamp CASCADE; ALTER TABLE inventory_item DROP changed_on',
      );
      expect(await setQuantity(service, members())).toMatchObject({ outcome: 'done' });
      const stamped = await service.sql('SELECT changed_on IS NOT NULL AS is_stamped FROM inventory_item');
      expect(stamped).toEqual([{ is_stamped: true }]);
    });
  });
});
