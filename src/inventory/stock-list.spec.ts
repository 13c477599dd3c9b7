import * as zlib from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { PETS_PER_PIECE, Piece, StockList } from './stock-list.js';
import { MAX_PET_ID, MIN_PET_ID } from './stock.limits.js';

/** The item of a pet, with what a member of text could contain. */
const item = (petId: bigint, n: number) => `{"petId":${petId},"note":${JSON.stringify(`ü{"petId":9}], ${n}`)}}`;

type Items = ReadonlyMap<bigint, string>;
const inOrder = (items: Items) =>
  [...items].sort(([one], [another]) => (one < another ? -1 : 1)).map(([, text]) => text);
const listOf = (items: Items) =>
  new StockList(
    Piece.cut(
      inOrder(items)
        .map((text) => `,${text}`)
        .join(''),
    ),
  );
const stock = (count: number, id: (n: bigint) => bigint) =>
  new Map(Array.from({ length: count }, (_, n) => [id(BigInt(n)), item(id(BigInt(n)), 0)]));

const PETS = 100_000;

const bodyOf = ({ chunks }: StockList['plain']) =>
  Buffer.concat(chunks.map((chunk) => Buffer.from(chunk as string, 'latin1')));

describe('StockList', () => {
  it.each<[string, (n: bigint) => bigint]>([
    ['in sequence', (n) => n],
    ['multiples of ten', (n) => n * 10n],
    ['multiples of 1,024', (n) => n * 1_024n],
    ['multiples of a milliard', (n) => n * 1_000_000_000n],
    ['multiples of 2^40', (n) => n << 40n],
    ['at the lower end', (n) => MIN_PET_ID + n],
    ['at the upper end', (n) => MAX_PET_ID - n],
    ['times and counters', (n) => (1_790_000_000_000n + n) << 12n],
  ])('has pieces of some 1,024 pets: ids %s', (_, id) => {
    const { pieces } = listOf(stock(PETS, id));
    expect(PETS / pieces.length).toBeGreaterThan(PETS_PER_PIECE * 0.8);
    expect(PETS / pieces.length).toBeLessThan(PETS_PER_PIECE * 1.25);
    expect(Math.max(...pieces.map(({ bytes }) => bytes.length))).toBeLessThan(15 * 50 * PETS_PER_PIECE);
  });

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
          list = before.with(changes.map(([id]) => ({ petId: String(id), item: items.get(id) ?? null })));
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

  it('compresses one piece at a time, and lets other work run while it puts many together', async () => {
    const list = listOf(stock(200_000, (n) => n));
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

  it('is compressed anew after compressing a piece has failed', async () => {
    const deflateRaw = vi.fn(zlib.deflateRaw).mockImplementationOnce((_, ...rest) => {
      const callback = rest.at(-1) as zlib.CompressCallback;
      callback(new Error('no memory'), Buffer.alloc(0));
    });
    vi.doMock('node:zlib', () => ({ ...zlib, deflateRaw }));
    vi.resetModules(); // another file may have loaded the module with the real zlib
    onTestFinished(() => vi.doUnmock('node:zlib'));
    const { Piece, StockList } = await import('./stock-list.js');
    const list = new StockList(listOf(stock(5_000, (n) => n)).pieces.map(({ bytes }) => new Piece(bytes)));
    await expect(list.gzip()).rejects.toThrow('no memory');
    expect(zlib.gunzipSync(bodyOf(await list.gzip()))).toEqual(bodyOf(list.plain));
    expect(await list.gzip()).toBe(await list.gzip());
    await list.with([{ petId: '1', item: null }]).gzip();
    expect(deflateRaw).toHaveBeenCalledTimes(list.pieces.length + 2); // each piece once, the first one three times
  });

  it('has the same tag in each version of the service, with FAST=on and off', () => {
    const items = Array.from({ length: 3_000 }, (_, n) => ({ petId: BigInt(n), quantity: n, status: 'sold' as const }));
    const text = items.map(({ petId, quantity }) => `,{"petId":${petId},"quantity":${quantity},"status":"sold"}`);
    for (const list of [new StockList(Piece.cut(text.join(''))), StockList.of(items)]) {
      expect(list.pieces).toHaveLength(5);
      expect(list.tag('gzip')).toBe('D49p4hzEwvMiEYhw4BOef4PFkii-gzip');
    }
    expect(
      [new StockList([]), new StockList(Piece.cut('')), StockList.of([])].map((list) => list.tag('identity')),
    ).toEqual(Array(3).fill('Xfbg4nYTWdMKgnUFjimfzAOBU0V'));
    const far = items.map((each, n) => ({ ...each, petId: MIN_PET_ID + BigInt(n) * 6_148_914_691_236_517n }));
    expect(StockList.of(far).tag('identity')).toBe('ypNzmnsPt3yK1TOjfsMJ0mAte_q');
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

  it('keeps all pieces except the one that a new pet is in', () => {
    const list = listOf(stock(20_000, (n) => n * 2n));
    const after = list.with([{ petId: '7777', item: item(7777n, 1) }]);
    expect(after.pieces.filter((piece) => !list.pieces.includes(piece))).toHaveLength(1);
    expect(after.bytesNotIn(list)).toBeLessThan(after.plain.length / 4);
    const gone = Array.from({ length: 6_000 }, (_, n) => ({ petId: String(n * 2), item: null }));
    expect(after.with(gone).bytesNotIn(list)).toBeLessThan(after.plain.length / 4);
  });

  it('has no piece of which all pets have gone, be it the first, the last or another', () => {
    const { pieces } = listOf(stock(20_000, (n) => n));
    const textsOf = (some: readonly Piece[]) => some.map(({ bytes }) => bytes.toString());
    for (const at of [0, 3, pieces.length - 1]) {
      const from = Number(pieces[at]?.firstPet);
      const gone = Array.from({ length: Number(pieces[at + 1]?.firstPet ?? 20_000) - from }, (_, n) => from + n);
      const rest = new StockList(pieces).with(gone.map((petId) => ({ petId: String(petId), item: null })));
      expect(textsOf(rest.pieces)).toEqual(textsOf(pieces.toSpliced(at, 1)));
    }
  });
});
