import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { holdsKey } from '../safe-text.ts';
import { makeKey, makeKeyId, sha256OfKey } from './api-key-format.ts';

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** The rule of docs/operations.md: the last 6 characters are the CRC-32 of those before them, in base62. */
function isWellFormedKey(text: string): boolean {
  const [, body = '', checksum = ''] = /^(psk_[0-9A-Za-z]{42})([0-9A-Za-z]{6})$/.exec(text) ?? [];
  const value = Array.from(checksum).reduce((sum, char) => sum * 62 + BASE62.indexOf(char), 0);
  return body !== '' && value === crc32(body);
}

describe('an API key', () => {
  const keys = Array.from({ length: 2_000 }, makeKey);

  it('has the published form and is unique', () => {
    const keyOfTheFirstRelease = `psk_${'0'.repeat(42)}2G7s63`;
    for (const key of [keyOfTheFirstRelease, ...keys]) expect(isWellFormedKey(key), key).toBe(true);
    expect(new Set(keys).size).toBe(keys.length);
  });

  it('has every character of the alphabet equally often', () => {
    const counts = new Map<string, number>();
    for (const char of keys.map((key) => key.slice(4, 46)).join('')) counts.set(char, (counts.get(char) ?? 0) + 1);
    const expected = (keys.length * 42) / 62;
    const chiSquare = [...counts.values()].reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
    expect(counts.size).toBe(62);
    expect(chiSquare).toBeLessThan(140); // 61 degrees of freedom: exceeded by chance once in some ten million runs
  });

  it('takes nothing from Math.random, whose numbers can be foretold, and neither does its id', () => {
    const random = vi.spyOn(Math, 'random');
    onTestFinished(() => random.mockRestore());
    makeKey();
    makeKeyId();
    expect(random).not.toHaveBeenCalled();
  });

  it('is stored as its SHA-256', () => {
    expect(sha256OfKey('psk_x')).toEqual(createHash('sha256').update('psk_x').digest());
  });

  it('is known in a longer text, also when a part of it is missing', () => {
    const [key = ''] = keys;
    expect([key, `x${key}x`, key.slice(0, 36), key.slice(0, 35), 'psk_'].map(holdsKey)).toEqual([
      true,
      true,
      true,
      false,
      false,
    ]);
  });

  it('has a short, lower-case, unique id', () => {
    const ids = Array.from({ length: 2_000 }, makeKeyId);
    for (const id of ids) expect(id).toMatch(/^[0-9a-hjkmnp-tv-z]{8}$/);
    expect(new Set(ids).size).toBe(ids.length);
    expect(new Set(ids.join('')).size).toBe(32);
  });
});
