import * as zlib from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bodyOf, inOrder, item, listOf, stock } from '../../../test/support/stock-lists.ts';
import { type Piece, StockList } from '../list/stock-list.ts';
import { MAX_PET_ID, MIN_PET_ID } from '../item-limits.ts';
import { patched } from './patched-list.ts';

describe('a patched list', () => {
  it('equals, after any changes, a list built in one go, with its tags and gzip', async () => {
    const first = listOf(stock(20_000, (n) => n)).pieces.map(({ firstPet }) => firstPet);
    const petId = fc.oneof(
      fc.constantFrom(...first.slice(0, 12)), // these split and join pieces
      fc.bigInt(-20n, 20n),
      fc.bigInt(MIN_PET_ID, MAX_PET_ID),
      fc.constantFrom(MIN_PET_ID, MIN_PET_ID + 1n, MAX_PET_ID - 1n, MAX_PET_ID),
      fc.nat(19).map((digits) => 10n ** BigInt(Math.min(digits, 18))),
      fc.nat(62).map((bits) => 1n << BigInt(bits)),
    );
    const change = fc.tuple(petId, fc.option(fc.nat(99), { freq: 2 }));
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(change, { maxLength: 8 }), { maxLength: 8 }), async (steps) => {
        const items = stock(5, (n) => n * 7n);
        let list = listOf(items);
        for (const step of steps) {
          const before = list;
          const changes = [...new Map(step)].sort(([one], [another]) => (one < another ? -1 : 1));
          for (const [id, n] of changes) {
            if (n === null) items.delete(id);
            else items.set(id, item(id, n));
          }
          list = patched(
            before,
            changes.map(([id]) => ({ petId: String(id), item: items.get(id) ?? null })),
          );
          const text = `[${inOrder(items).join()}]`;
          expect(bodyOf(list.plain).toString()).toBe(text);
          expect(list.plain.length).toBe(Buffer.byteLength(text));
          expect(list.tag('identity')).toBe(listOf(items).tag('identity'));
          expect(zlib.gunzipSync(bodyOf(await list.gzip())).toString()).toBe(text);
          expect(list.bytesNotIn(list)).toBe(0);
          if (changes.length === 0) expect(list).toBe(before);
        }
      }),
      { numRuns: 200, endOnFailure: true },
    );
  });

  it('keeps all pieces except the one that a new pet is in', () => {
    const list = listOf(stock(20_000, (n) => n * 2n));
    const after = patched(list, [{ petId: '7777', item: item(7777n, 1) }]);
    expect(after.pieces.filter((piece) => !list.pieces.includes(piece))).toHaveLength(1);
    expect(after.bytesNotIn(list)).toBeLessThan(after.plain.length / 4);
    const gone = Array.from({ length: 6_000 }, (_, n) => ({ petId: String(n * 2), item: null }));
    expect(patched(after, gone).bytesNotIn(list)).toBeLessThan(after.plain.length / 4);
  });

  it('has no piece of which all pets have gone, be it the first, the last or another', () => {
    const { pieces } = listOf(stock(20_000, (n) => n));
    const textsOf = (some: readonly Piece[]) => some.map(({ bytes }) => bytes.toString());
    for (const at of [0, 3, pieces.length - 1]) {
      const from = Number(pieces[at]?.firstPet);
      const gone = Array.from({ length: Number(pieces[at + 1]?.firstPet ?? 20_000) - from }, (_, n) => from + n);
      const rest = patched(
        new StockList(pieces),
        gone.map((petId) => ({ petId: String(petId), item: null })),
      );
      expect(textsOf(rest.pieces)).toEqual(textsOf(pieces.toSpliced(at, 1)));
    }
  });
});
