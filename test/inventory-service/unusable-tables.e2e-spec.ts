import { randomUUID } from 'node:crypto';
import { beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { NotApplied } from '../../src/lib/postgres/index.ts';
import { Log } from '../../src/operations/log.ts';
import { createDatabase } from '../support/database.ts';
import { ask } from '../support/http-client.ts';
import type { TestService } from '../support/service.ts';
import { listText } from '../support/stock.ts';
import { atTestEnd } from '../support/test-end.ts';
import { setQuantity } from '../support/updates.ts';
import { eachServiceDirectly } from './services.ts';

eachServiceDirectly(({ start }) => {
  describe('while the service cannot use the tables', () => {
    let service: TestService;
    const role = `clerk_${randomUUID().replaceAll('-', '')}`;

    beforeAll(async () => {
      const database = await createDatabase();
      await database.sql(
        `CREATE ROLE ${role} LOGIN PASSWORD 'clerk'; GRANT ALL ON ALL TABLES IN SCHEMA public TO ${role}`,
      );
      await atTestEnd(() => database.sql(`DROP OWNED BY ${role}; DROP ROLE ${role}`));
      const DATABASE_URL = Object.assign(new URL(database.url), { username: role, password: 'clerk' }).href;
      service = await start({ databaseUrl: database.url, settings: { DATABASE_URL } });
    });
    beforeEach(() => service.stock([1, 1]));

    // First: a fast service keeps no list of a table that has ever had a rule.
    it('row security: a list has the rows that the role may see, and a value that a policy refuses fails alone', async () => {
      await service.stock([2, 1], [3, 1], [4, 1]);
      await service.sql(
        `ALTER TABLE inventory_item ENABLE ROW LEVEL SECURITY;
         CREATE POLICY most ON inventory_item USING (true) WITH CHECK (quantity <= 1000)`,
      );
      await atTestEnd(() =>
        service.sql('DROP POLICY most ON inventory_item; ALTER TABLE inventory_item DISABLE ROW LEVEL SECURITY'),
      );
      expect((await service.list()).text).toBe(listText([1, 1], [2, 1], [3, 1], [4, 1]));
      await service.sql('ALTER POLICY most ON inventory_item USING (pet_id < 4)');
      expect((await service.list()).text).toBe(listText([1, 1], [2, 1], [3, 1]));
      const results = [1n, 2n, 3n, 4n].map((petId) =>
        setQuantity(service, { petId, quantity: petId === 2n ? 1_001 : 7 }),
      );
      expect((await Promise.all(results)).map(({ outcome }) => outcome)).toEqual([
        'done',
        'validation_failed',
        'done',
        'not_found',
      ]);
      expect((await service.list()).text).toBe(listText([1, 7], [2, 1], [3, 7]));
    });

    it('row security that raises an error: a list is 503 after one reading, an update 400, and the service goes on', async () => {
      await service.sql(
        `CREATE SEQUENCE readings; GRANT USAGE ON SEQUENCE readings TO ${role};
         ALTER TABLE inventory_item ENABLE ROW LEVEL SECURITY;
         CREATE POLICY broken ON inventory_item USING (nextval('readings') / (quantity - quantity) > 0)`,
      );
      const undo = () =>
        service.sql(
          `ALTER TABLE inventory_item DISABLE ROW LEVEL SECURITY; DROP POLICY IF EXISTS broken ON inventory_item;
           DROP SEQUENCE IF EXISTS readings`,
        );
      await atTestEnd(undo);
      const log = service.app.get(Log);
      vi.spyOn(log, 'isEnabled').mockReturnValueOnce(true);
      const lines = vi.spyOn(log, 'error');
      const list = await service.list();
      expect([list.status, JSON.parse(list.text)]).toMatchObject([503, { code: 'service_unavailable' }]);
      expect(await service.sql('SELECT last_value AS readings FROM readings')).toEqual([{ readings: '1' }]);
      await expect
        .poll(() => lines.mock.calls)
        .toMatchObject([
          [{ err: { constructor: NotApplied, message: expect.stringMatching(/\(22012\)$/) as string } }, 'request'],
        ]);
      expect(JSON.parse((await service.update(1, 5)).text)).toMatchObject({ code: 'validation_failed' });
      expect((await ask(service.port, { target: '/health/ready' })).status).toBe(200);
      await undo();
      expect((await service.list()).status).toBe(200);
    });

    const publicText = async (target: string) => (await ask(service.port, { target })).text;

    it.each([
      ['SELECT ON inventory_item', 503],
      ['UPDATE ON inventory_item', 200],
      ['INSERT ON stock_change', 200],
    ])('its role lacks %s: requests fail at once, and it is not ready', async (right, listStatus) => {
      await service.sql(`REVOKE ${right} FROM ${role}`);
      await atTestEnd(() => service.sql(`GRANT ${right} TO ${role}`));
      const from = performance.now();
      expect((await service.list()).status).toBe(listStatus);
      expect(JSON.parse((await service.update(1, 5)).text)).toMatchObject({ code: 'service_unavailable' });
      expect(performance.now() - from).toBeLessThan(5_000); // not at the deadline, after 9 s
      expect(await publicText('/health/ready')).toContain('"code":"service_unavailable"');
    });

    it('its role has rights on columns alone: it is not ready', async () => {
      await service.sql(
        `REVOKE UPDATE ON inventory_item FROM ${role}; GRANT UPDATE (status) ON inventory_item TO ${role}`,
      );
      await atTestEnd(() => service.sql(`GRANT UPDATE ON inventory_item TO ${role}`));
      expect((await service.update(1, 5)).status).toBe(503);
      expect((await ask(service.port, { target: '/health/ready' })).status).toBe(503);
    });

    it.each(['stock_change', 'unrecorded_change'])(
      '%s is gone: it is not ready until the table is back',
      async (table) => {
        await service.sql(`ALTER TABLE ${table} RENAME TO elsewhere`);
        expect((await ask(service.port, { target: '/health/ready' })).status).toBe(503);
        await service.sql(`ALTER TABLE elsewhere RENAME TO ${table}`);
        expect((await ask(service.port, { target: '/health/ready' })).status).toBe(200);
      },
    );

    it('the public paths name no table, rule, role or host, whether it is ready or not', async () => {
      await service.sql('CREATE RULE theirs AS ON DELETE TO inventory_item DO INSTEAD NOTHING');
      await atTestEnd(() => service.sql('DROP RULE theirs ON inventory_item'));
      const paths = ['/health/live', '/health/ready', '/docs', '/openapi.json'];
      const names = [role, new URL(service.databaseUrl).host, 'theirs'];
      const tables = await service.sql<{ name: string }>(
        `SELECT relname AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace`,
      );
      names.push(...tables.map(({ name }) => name));
      const find = async () => {
        const texts = await Promise.all(paths.map(publicText));
        return names.filter((name) => texts.some((text) => text.includes(name)));
      };
      expect(await find()).toEqual([]);
      await service.sql(`REVOKE UPDATE ON inventory_item FROM ${role}`);
      await atTestEnd(() => service.sql(`GRANT UPDATE ON inventory_item TO ${role}`));
      expect(await publicText('/health/ready')).toContain('"code":"service_unavailable"');
      expect(await find()).toEqual([]);
    });

    it('a column is not there yet: an update waits for it until its deadline', async () => {
      await service.sql('ALTER TABLE stock_change RENAME reason TO later');
      expect(await setQuantity(service, { quantity: 5 }, 2_500)).toEqual({ outcome: 'service_unavailable' });
      const waiting = setQuantity(service, { quantity: 5 });
      await service.sql('ALTER TABLE stock_change RENAME later TO reason');
      expect(await waiting).toMatchObject({ outcome: 'done' });
    });
  });
});
