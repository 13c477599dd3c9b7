import { setTimeout as pause } from 'node:timers/promises';
import { expect, it, onTestFinished, vi } from 'vitest';
import type { PrismaService } from '../database/prisma.service.js';
import { readSettings } from '../settings.js';
import { type CheckedKey, KeyCheck } from './key-check.js';

const key = (failure?: 'revoked_key'): CheckedKey => ({
  failure,
  keyId: 'prometheus',
  scopes: ['metrics:read'],
  snapshot: { life: null, transactions: '' },
});

it.each([
  [200, 'the database', 'revoked_key'],
  [300, 'memory', undefined],
])('a check of the key of metrics that takes %i ms is answered by %s', async (ms, _, failure) => {
  const keyCheck = new KeyCheck(readSettings({ DATABASE_URL: 'postgresql://localhost/stock' }), {} as PrismaService);
  const check = vi.spyOn(keyCheck, 'check').mockResolvedValueOnce(key());
  await keyCheck.checkReader('00', Infinity);
  check.mockImplementation(() => pause(ms, key('revoked_key')));
  expect((await keyCheck.checkReader('00', Infinity)).failure).toBe(failure);
});

it('serves metrics without the database for an hour after the last good check', async () => {
  const keyCheck = new KeyCheck(readSettings({ DATABASE_URL: 'postgresql://localhost/stock' }), {} as PrismaService);
  const clock = vi.spyOn(performance, 'now');
  onTestFinished(() => clock.mockRestore());
  const check = vi.spyOn(keyCheck, 'check').mockResolvedValue(key());
  const isServed = (minute: number) => {
    clock.mockReturnValue(minute * 60_000);
    return keyCheck.checkReader('00', Infinity).then(Boolean, () => false);
  };
  for (const minute of [0, 50]) await isServed(minute);
  check.mockRejectedValue(new Error('away'));
  expect([await isServed(109), await isServed(111)]).toEqual([true, false]);
});
