import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { refused, whole } from '../../test/support/answers.ts';
import { type TestService, startService } from '../../test/support/service.ts';
import { withTrigger } from '../../test/support/triggers.ts';
import { UPDATE, changesOf, setQuantity } from '../../test/support/updates.ts';
import { NotApplied } from '../lib/postgres/index.ts';
import { failureOf } from '../database-errors.ts';
import { PrismaService } from '../prisma.service.ts';

/* How the plain service keeps what both services promise: the promises are tested in test/inventory-service/. */

let service: TestService;

beforeAll(async () => {
  service = await startService({ settings: { FAST: 'off' } });
});
beforeEach(async () => {
  await service.sql('DELETE FROM inventory_item');
  await service.stock([1, 1], [2, 2]);
});

describe('the transaction of an update', () => {
  it.each([
    ['off', 'on'],
    ['local', 'on'],
    ['remote_write', 'remote_write'],
  ])(
    'commits durably in a session with synchronous_commit = %s, as a pooler may give it: %s',
    async (before, during) => {
      const settings = `current_setting('synchronous_commit') || ' ' || current_setting('client_min_messages')`;
      await withTrigger(
        service,
        'BEFORE INSERT ON stock_change',
        `PERFORM set_config('test.settings', ${settings}, false); RETURN NEW;`,
      );
      const ofPool = async (statement: string) => {
        const session = await service.app.get(PrismaService).pool.connect(); // the one that was used last
        return session.query(statement).finally(() => session.release());
      };
      await ofPool(`SET synchronous_commit = ${before}; SET client_min_messages = error`);
      expect(await setQuantity(service, {})).toMatchObject({ outcome: 'done' });
      const { rows } = await ofPool(`SELECT current_setting('test.settings') AS during, ${settings} AS later`);
      expect(rows).toEqual([{ during: `${during} warning`, later: `${before} error` }]);
    },
  );

  it("may take longer than Prisma's own bound of a transaction, which is 5 s", async () => {
    await withTrigger(service, 'BEFORE UPDATE ON inventory_item', 'PERFORM pg_sleep(5.1); RETURN NEW;');
    const settings = { FAST: 'off', REQUEST_DEADLINE_MS: '9000' };
    const patient = await startService({ databaseUrl: service.databaseUrl, settings });
    expect(await setQuantity(patient, { quantity: 7 })).toMatchObject({ outcome: 'done' });
  });

  it('says why it was not applied when its session ends before the commit', async () => {
    await withTrigger(
      service,
      'BEFORE UPDATE ON inventory_item',
      'PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW;',
    );
    const update = service.inventory.setQuantity(UPDATE, performance.now() + 2_500);
    const failure = await update.catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(NotApplied);
    expect(failureOf(failure).words).toMatch(/^.+ \(57P01\)$/);
    expect(await changesOf(service, 1)).toEqual([]);
  });

  // FAST=on compares no history, because that would cost each update a tenth.
  it.each([
    ['another quantity', 'NEW.quantity_after := 7'],
    ['another quantity before it', 'NEW.quantity_before := 7'],
    ['another status', `NEW.status_before := 'sold'`],
    ['another pet', 'NEW.pet_id := 3'],
  ])('writes nothing when a trigger gives its history %s', async (_, act) => {
    await withTrigger(service, 'BEFORE INSERT ON stock_change', `${act}; RETURN NEW;`);
    for (const headers of [[], [['If-Match', '"available-1"']], [['Idempotency-Key', 'k']]] as const)
      expect(whole(await service.update(1, 5, headers))).toEqual(refused.rule);
    expect(await service.sql('SELECT quantity FROM inventory_item ORDER BY pet_id')).toEqual([
      { quantity: 1 },
      { quantity: 2 },
    ]);
    expect(await changesOf(service, 1)).toEqual([]);
  });
});
