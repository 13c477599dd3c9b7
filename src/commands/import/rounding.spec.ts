import fc from 'fast-check';
import { expect, it } from 'vitest';
import { isRoundedFrom, reachOf } from './rounding.ts';

const LONG = 10n ** 15n;
const petId = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).filter((id) => id > LONG || id < -LONG);

it('knows what programs make of an id, and how far away it may lie', () => {
  fc.assert(
    fc.property(petId, fc.integer({ min: 15, max: 17 }), (id, digits) => {
      const sign = id < 0n ? '-' : '';
      const text = id.toString().slice(sign.length);
      for (const written of [
        `${sign}${text.slice(0, digits).padEnd(text.length, '0')}`,
        new Intl.NumberFormat('en', { maximumSignificantDigits: digits, useGrouping: false }).format(id),
        new Intl.NumberFormat('en', { maximumSignificantDigits: digits, useGrouping: false }).format(
          BigInt(Number(id)),
        ),
        String(BigInt(Number(id))),
        String(Number(id)),
      ]) {
        const rounded = BigInt(written);
        expect(isRoundedFrom(written, written, id)).toBe(true);
        const distance = rounded > id ? rounded - id : id - rounded;
        expect(reachOf(rounded) >= distance).toBe(true);
      }
    }),
    { numRuns: 2_000 },
  );
});

it.each([9912140633506422n, 9912140633506419n, 99121406335064n])(
  'takes %d for no rounded 9912140633506421',
  (other) => {
    expect(isRoundedFrom(String(other), String(other), 9912140633506421n)).toBe(false);
  },
);

it.each([9912140633506421n, 9007199254740993n, 1234567890123456n, -9223372036854775807n])(
  'takes %d for exact',
  (petId) => {
    expect(reachOf(petId)).toBe(0n);
  },
);

it('knows the 15 digits that LibreOffice shows of an id, which it keeps as a double', () => {
  expect(isRoundedFrom('1.25967478138487E+018', '1259674781384870000', 1259674781384864919n)).toBe(true);
});
