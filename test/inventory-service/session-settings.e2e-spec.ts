import { setTimeout as pause } from 'node:timers/promises';
import type { Client } from 'pg';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Database, createDatabase } from '../support/database.ts';
import { addGeneratedColumns, HOSTILE } from '../support/hostile-settings.ts';
import { HAS_POOLER } from '../support/pooler.ts';
import type { TestService } from '../support/service.ts';
import { listText } from '../support/stock.ts';
import { eachServiceBothWays, expectLists, startEveryService } from './services.ts';

/** PgBouncer carries these from one session to another. */
const CARRIED = HOSTILE.flat().filter((setting) => /^(client_encoding|DateStyle|TimeZone|standard_conf)/.test(setting));

async function set(owner: Client, settings: readonly string[]): Promise<void> {
  const { rows } = await owner.query<{ name: string }>('SELECT current_database() AS name');
  for (const setting of ['RESET ALL', ...settings.map((each) => `SET ${each}`)])
    await owner.query(`ALTER DATABASE ${String(rows[0]?.name)} ${setting}`);
}

eachServiceBothWays(({ isPooled, start }) => {
  let database: Database;
  /** A session from before the settings. */
  let owner: Client;
  let key: string | undefined;

  beforeAll(async () => {
    database = await createDatabase();
    await addGeneratedColumns(database);
    owner = await database.session();
  });
  beforeEach(async () => {
    await owner.query(
      `DELETE FROM inventory_item; INSERT INTO inventory_item VALUES (1, 1, 'available'), (2, 2, 'sold')`,
    );
  });

  async function startWith(...settings: string[]): Promise<TestService> {
    await set(owner, settings);
    const service = await start({ databaseUrl: database.url, ...(key !== undefined && { key }) });
    ({ key } = service);
    return service;
  }

  describe('with foreign settings on the database', () => {
    it('lists, updates and keys are right', async () => {
      const service = await startWith(...(isPooled ? CARRIED : HOSTILE.flat()));
      const conditionally = () =>
        service.update(2, 22, [
          ['If-Match', '"sold-2"'],
          ['Idempotency-Key', 'once'],
        ]);
      const [plain, conditional, refused, absent] = await Promise.all([
        service.update(1, 11),
        conditionally(),
        service.update(1, 12, [['If-Match', '"NULL"']]),
        service.update(3, 33),
      ]);
      expect([plain.status, conditional.status, refused.status, absent.status]).toEqual([200, 200, 412, 404]);
      expect((await service.update(1, 13)).status).toBe(200); // a batch of one
      expect((await conditionally()).status).toBe(200); // a repetition
      expect((await service.list()).text).toBe(listText([1, 13], [2, 22, 'sold']));
    });

    it.skipIf(isPooled)('the service keeps its sessions with idle_session_timeout = 200', async () => {
      await startWith('idle_session_timeout = 200');
      const sessions = async () => {
        const { rows } = await owner.query(
          `SELECT pid FROM pg_stat_activity
            WHERE datname = current_database() AND application_name LIKE 'inventory %' ORDER BY pid`,
        );
        return rows as unknown[];
      };
      const opened = await sessions();
      expect(opened).not.toEqual([]);
      await pause(400); // twice the timeout: that nothing ends shows only afterwards
      expect(await sessions()).toEqual(opened);
    });

    it.skipIf(isPooled).each(['serializable', '"repeatable read"'])(
      'requests that waited while the table was rewritten see all pets with %s',
      async (isolation) => {
        const service = await startWith(`default_transaction_isolation = ${isolation}`);
        const rewriter = await service.database.session('ALTER TABLE inventory_item ALTER quantity TYPE bigint');
        await rewriter.query('ALTER TABLE inventory_item ALTER quantity TYPE int');
        const list = service.list();
        const updates = Promise.all([service.update(1, 1), service.update(2, 2)]);
        await expect.poll(() => database.waitingForLocks(), { interval: 5 }).toBeGreaterThanOrEqual(2); // a batch, or each
        await rewriter.query('COMMIT');
        expect((await updates).map(({ status }) => status)).toEqual([200, 200]);
        expect((await list).text).toBe(listText([1, 1], [2, 2, 'sold']));
      },
    );
  });
});

describe('services of each kind on one database', () => {
  it.runIf(HAS_POOLER)('give right lists and verdicts with foreign settings that PgBouncer carries', async () => {
    const database = await createDatabase();
    await set(await database.session(), CARRIED);
    const services = await startEveryService({ databaseUrl: database.url });
    const pets = Array.from({ length: 30 }, (_, at) => at);
    await database.stock(...pets.map((petId) => [petId, 0] as const));
    for (let round = 1; round <= 5; round++) {
      const statuses = await Promise.all(
        pets.map(async (petId) => (await services[(petId + round) % services.length]?.update(petId, round))?.status),
      );
      expect(statuses).toEqual(pets.map(() => 200));
      const verdicts = services.flatMap(({ update }) => [update(1, 5, [['If-Match', '"sold-7"']]), update(99, 1)]);
      const lists = expectLists([...services, ...services], listText(...pets.map((petId) => [petId, round] as const))); // so many that a pooler spreads them
      expect((await Promise.all(verdicts)).map(({ status }) => status)).toEqual(services.flatMap(() => [412, 404]));
      await lists;
    }
  });
});
