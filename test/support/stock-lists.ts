import type { Inventory } from '../../src/inventory/inventory.ts';
import { Piece, StockList } from '../../src/inventory/list/stock-list.ts';

/** The item of a pet, with what a member of text could contain. */
export const item = (petId: bigint, n: number) => `{"petId":${petId},"note":${JSON.stringify(`ü{"petId":9}], ${n}`)}}`;

export type Items = ReadonlyMap<bigint, string>;
export const inOrder = (items: Items) =>
  [...items].sort(([one], [another]) => (one < another ? -1 : 1)).map(([, text]) => text);
export const listOf = (items: Items) =>
  new StockList(
    Piece.cut(
      inOrder(items)
        .map((text) => `,${text}`)
        .join(''),
    ),
  );
export const stock = (count: number, id: (n: bigint) => bigint) =>
  new Map(Array.from({ length: count }, (_, n) => [id(BigInt(n)), item(id(BigInt(n)), 0)]));

/** Reads the stock past HTTP, whatever the service remembers of it. */
export const readStock = ({ inventory }: { readonly inventory: Inventory }, patienceMs = 9_000) =>
  inventory.list({ snapshot: { life: null, transactions: '' }, deadline: performance.now() + patienceMs });

export const bodyOf = ({ chunks }: StockList['plain']) =>
  Buffer.concat(chunks.map((chunk) => Buffer.from(chunk as string, 'latin1')));
