import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { makeKey } from '../../src/keys/api-key-format.ts';
import { refused, replayed, updated, whole } from '../support/answers.ts';
import { type TestService, startService } from '../support/service.ts';
import { changesOf } from '../support/updates.ts';

/* What these headers do is in test/inventory-service/: conditions, repetitions, reasons. */

let service: TestService;

beforeAll(async () => {
  service = await startService();
});
beforeEach(async () => {
  await service.sql('DELETE FROM inventory_item');
  await service.stock([1, 10]);
});

/** Each field in a line of its own. */
async function update(name: string, ...fields: readonly string[]) {
  const headers = fields.map((field) => [name, field] as const);
  return whole(await service.update(1, 11, headers));
}

describe('PATCH /v1/inventory/:petId, the form of Idempotency-Key', () => {
  const TAKEN = ['a', '_-09azAZ', `"${'x'.repeat(64)}"`, ' "spaces" '];
  const REFUSED = ['', '""', '"a', 'a"', '""a""', "'a'", '"a";b', 'x'.repeat(65), 'a b', 'a.b', 'a,b', '\xe4'];
  const LIKE_AN_API_KEY = `psk_${'0'.repeat(46)}`;

  it.each(TAKEN)('is accepted: %s', async (key) => {
    expect(await update('Idempotency-Key', key)).toEqual(updated('1', 11));
    expect(await update('Idempotency-Key', key.replaceAll(/[" ]/g, ''))).toEqual(replayed('1', 11));
  });

  it.each([...REFUSED.map((key) => [key]), [LIKE_AN_API_KEY], ['a', 'a'], ['a', 'b']])(
    '%j is refused',
    async (...keys) => {
      expect(await update('Idempotency-Key', ...keys)).toEqual(refused.idempotencyKey);
      expect(await changesOf(service, 1)).toEqual([]);
    },
  );
});

describe('PATCH /v1/inventory/:petId, the form of Change-Reason', () => {
  it.each([
    ['is empty', ['']],
    ['has 65 characters', ['x'.repeat(65)]],
    ['has a space', ['new arrival']],
    ['is an API key', [makeKey()]],
    ['contains most of an API key', [`key-${makeKey().slice(0, 40)}`]],
    ['is there twice', ['return', 'return']],
  ])('is refused, and nothing is written, when the reason %s', async (_, reasons) => {
    expect(await update('Change-Reason', ...reasons)).toEqual(refused.changeReason);
    expect(await changesOf(service, 1)).toEqual([]);
  });
});

describe('PATCH /v1/inventory/:petId, If-None-Match', () => {
  it.each(['*', '"available-10"', 'W/"x"', '', 'x'])(
    'is refused, and nothing is written, with and without If-Match: "%s"',
    async (field) => {
      expect(await update('If-None-Match', field)).toEqual(refused.ifNoneMatch);
      const both = [
        ['If-Match', '*'],
        ['If-None-Match', field],
      ] as const;
      expect(whole(await service.update(1, 11, both))).toEqual(refused.ifNoneMatch);
      expect(await changesOf(service, 1)).toEqual([]);
    },
  );

  it.each([
    ['If-Modified-Since', 'Fri, 31 Dec 9999 23:59:59 GMT'],
    ['If-Unmodified-Since', 'Thu, 01 Jan 1970 00:00:00 GMT'],
    ['If-Range', '"x"'],
  ])('%s is ignored', async (name, field) => {
    expect(await update(name, field)).toEqual(updated('1', 11));
  });
});

describe('PATCH /v1/inventory/:petId, the form of If-Match', () => {
  it.each(['available-10', '"available-10", available-11', '', ', ,', `"a"${', '.repeat(3_500)}x`])(
    'is refused because it is not a list of entity tags: "%.30s"',
    async (field) => {
      expect(await update('If-Match', field)).toEqual(refused.ifMatch);
      expect(await changesOf(service, 1)).toEqual([]);
    },
  );
});
