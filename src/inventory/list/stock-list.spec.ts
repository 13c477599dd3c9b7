import { describe, expect, it } from 'vitest';
import { bodyOf, item, listOf, stock } from '../../../test/support/stock-lists.ts';
import { PETS_PER_PIECE, Piece, StockList } from './stock-list.ts';
import { MIN_PET_ID } from '../item-limits.ts';

const PETS = 100_000;

describe('StockList', () => {
  it.each<[string, (n: bigint) => bigint]>([
    ['in sequence', (n) => n],
    ['multiples of a milliard', (n) => n * 1_000_000_000n],
    ['at the lower end', (n) => MIN_PET_ID + n],
    ['times and counters', (n) => (1_790_000_000_000n + n) << 12n],
  ])('has pieces of some 1,024 pets: ids %s', (_, id) => {
    const { pieces } = listOf(stock(PETS, id));
    expect(PETS / pieces.length).toBeGreaterThan(PETS_PER_PIECE * 0.8);
    expect(PETS / pieces.length).toBeLessThan(PETS_PER_PIECE * 1.25);
    expect(Math.max(...pieces.map(({ bytes }) => bytes.length))).toBeLessThan(15 * 50 * PETS_PER_PIECE);
  });

  it('compresses one piece at a time, and lets other work run while it puts many together', async () => {
    const list = listOf(stock(80_000, (n) => n));
    const compressed = list.gzip();
    expect(list.pieces.filter(({ isDeflated }) => isDeflated)).toHaveLength(1);
    await compressed;
    for (const pieces of [63, 64]) {
      const another = new StockList(list.pieces.slice(0, pieces)); // with nothing left to compress
      let hasRun = false;
      setImmediate(() => (hasRun = true));
      await another.gzip();
      expect(hasRun).toBe(pieces === 64);
    }
  });

  it('has the same tag in each version of the service', () => {
    const textOf = (ids: readonly bigint[]) =>
      ids.map((petId, n) => `,{"petId":${petId},"quantity":${n},"status":"sold"}`).join('');
    const near = Array.from({ length: 3_000 }, (_, n) => BigInt(n));
    const list = new StockList(Piece.cut(textOf(near)));
    expect(list.pieces).toHaveLength(5);
    expect(list.tag('gzip')).toBe('D49p4hzEwvMiEYhw4BOef4PFkii-gzip');
    for (const empty of [new StockList([]), new StockList(Piece.cut(''))])
      expect(empty.tag('identity')).toBe('Xfbg4nYTWdMKgnUFjimfzAOBU0V');
    const far = near.map((n) => MIN_PET_ID + n * 6_148_914_691_236_517n);
    expect(new StockList(Piece.cut(textOf(far))).tag('identity')).toBe('ypNzmnsPt3yK1TOjfsMJ0mAte_q');
  });

  it('shares the pieces that another list has, and is that list if they are equal', () => {
    const items = stock(20_000, (n) => n);
    const list = listOf(items);
    expect(listOf(items).sharedWith(list)).toBe(list);
    expect(list.sharedWith(undefined)).toBe(list);
    items.set(7_777n, item(7_777n, 1));
    const changed = listOf(items);
    const shared = changed.sharedWith(list);
    expect(shared.pieces.filter((piece) => !list.pieces.includes(piece))).toHaveLength(1);
    expect(bodyOf(shared.plain).equals(bodyOf(changed.plain))).toBe(true);
  });

  it('is one gzip member without a name or a time, which ends with the length modulo 2^32', async () => {
    const list = listOf(stock(3, (n) => n));
    Object.assign(list, { plain: { ...list.plain, length: 2 ** 33 - 5 } });
    const bytes = bodyOf(await list.gzip());
    expect(bytes.toString('hex', 0, 10)).toBe('1f8b08000000000000ff');
    expect(bytes.readUInt32LE(bytes.length - 4)).toBe(2 ** 32 - 5);
  });

  it('is one text when it is short; a longer one shares the bytes of its pieces', () => {
    const listOfBytes = (bytes: number) => new StockList([new Piece(Buffer.from(',{"petId":1,'.padEnd(bytes - 1)))]);
    expect(listOfBytes(16_384).plain).toEqual({ chunks: [expect.any(String)], length: 16_384 });
    expect(listOfBytes(16_385).plain.chunks).toHaveLength(3);
    const { pieces, plain } = listOf(stock(2_000, (n) => n));
    expect(pieces.slice(1).map(({ bytes }) => bytes)).not.toEqual([]);
    for (const { bytes } of pieces.slice(1)) expect(plain.chunks.some((chunk) => chunk === bytes)).toBe(true);
  });
});
