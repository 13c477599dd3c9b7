import { describe, expect, it } from 'vitest';
import { NOT_AS_REQUESTED } from '../../src/database-errors.ts';
import { atTestEnd } from '../support/test-end.ts';
import { withTrigger } from '../support/triggers.ts';
import { BIG, csv, importText, SHEET, store, useImportStore } from './import-store.ts';

useImportStore(SHEET, 'recorded');

describe('an import, and a rule of the operator', () => {
  const trigger = (event: string, body: string, table = 'inventory_item') =>
    withTrigger(store, `BEFORE ${event} ON ${table}`, body);

  it.each([
    ['UPDATE', 'NEW.quantity := least(NEW.quantity, 13); RETURN NEW;', [`pet 2: ${NOT_AS_REQUESTED}`]],
    ['UPDATE', `IF NEW.quantity = 13 THEN NEW.status := 'sold'; END IF; RETURN NEW;`, [`pet 1: ${NOT_AS_REQUESTED}`]],
    ['UPDATE', 'RETURN NULL;', [`pet 1: ${NOT_AS_REQUESTED}`, `pet 2: ${NOT_AS_REQUESTED}`]],
    ['INSERT', 'RETURN NULL;', [`pet 77: ${NOT_AS_REQUESTED}`]],
    ['INSERT', 'NEW.quantity := 0; RETURN NEW;', [`pet 77: ${NOT_AS_REQUESTED}`]],
    ['INSERT', 'NEW.pet_id := 78; RETURN NEW;', [`pet 77: ${NOT_AS_REQUESTED}`]],
    ['DELETE', 'RETURN NULL;', [`pet ${BIG}: ${NOT_AS_REQUESTED}`]],
  ])(
    'that changes rows or keeps them back: the import names each pet, and writes nothing: %s %s',
    async (event, body, lines) => {
      await trigger(event, body);
      const before = await store.changes();
      const text = csv('1,13,available', '2,14,available', '77,3,sold', '# end');
      const refusal = await importText(text, { new: 'add', missing: 'remove' }).catch(
        (error: unknown) => (error as Error).message,
      );
      const count = `pets that a trigger concerns, all together: ${lines.length}; nothing was written`;
      expect(refusal).toBe([...lines, count].join('\n'));
      expect([await store.stock(), await store.changes()]).toEqual([SHEET, before]);
    },
  );

  it.each(['RETURN NULL;', 'NEW.quantity_after := 0; RETURN NEW;'])(
    'that changes rows of the history or keeps them back: the import names the pet, and writes nothing: %s',
    async (body) => {
      const before = await store.changes();
      await trigger('INSERT', body, 'stock_change');
      const refusal = importText(csv('1,13,available'));
      await expect(refusal).rejects.toThrow(`pet 1: ${NOT_AS_REQUESTED}`);
      expect([await store.stock(), await store.changes()]).toEqual([SHEET, before]);
    },
  );

  it('that changes no row: the import is done', async () => {
    await trigger('UPDATE', 'RETURN NEW;');
    expect((await importText(csv('1,13,available'))).summary).toMatchObject({ changed: 1 });
  });

  it('that is a DO INSTEAD: the import fails, and writes nothing', async () => {
    await store.sql('CREATE RULE theirs AS ON UPDATE TO inventory_item DO INSTEAD NOTHING');
    await atTestEnd(() => store.sql('DROP RULE theirs ON inventory_item'));
    await expect(importText(csv('1,13,available'))).rejects.toThrow('UPDATE RETURNING');
    expect(await store.stock()).toBe(SHEET);
  });
});
