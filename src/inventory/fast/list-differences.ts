import { setImmediate as nextTurn } from 'node:timers/promises';
import { SHOWN_AT_MOST } from '../../safe-text.ts';
import { ITEM_START, type Piece } from '../list/stock-list.ts';

/** Finds in which pets a kept list differs from the stock. Both are sorted, so it goes through them side by side. */
export class ListDifferences {
  pets = 0;
  /** The first of them. */
  readonly shown: string[] = [];

  /** @returns the pieces of the stock: the kept ones where they are equal, so that they are not in memory twice */
  async between(keptPieces: readonly Piece[], stock: AsyncIterable<Piece>): Promise<Piece[]> {
    const known = new Map(keptPieces.map((piece) => [piece.hash.toString('latin1'), piece]));
    const keptItems = itemsOf(keptPieces);
    const nextKept = () => keptItems.next().value ?? undefined;
    let kept = nextKept();
    const pieces: Piece[] = [];
    for await (const piece of stock) {
      pieces.push(known.get(piece.hash.toString('latin1')) ?? piece);
      for (const item of itemsOf([piece])) {
        const isBefore = (each: string) => each !== item && petOf(each) < petOf(item);
        for (; kept !== undefined && isBefore(kept); kept = nextKept()) this.#add(kept, 'nothing');
        const isKept = kept !== undefined && (kept === item || petOf(kept) === petOf(item));
        if (kept !== item) this.#add(isKept ? kept : 'nothing', item);
        if (isKept) kept = nextKept();
      }
      await nextTurn(); // requests first
    }
    for (; kept !== undefined; kept = nextKept()) this.#add(kept, 'nothing');
    return pieces;
  }

  #add(kept: string | undefined, item: string): void {
    this.pets++;
    if (this.pets <= SHOWN_AT_MOST) this.shown.push(`${kept} → ${item}`);
  }
}

function* itemsOf(pieces: Iterable<Piece>): Generator<string, void, undefined> {
  for (const { bytes } of pieces)
    for (const item of bytes.toString().split(`,${ITEM_START}`).slice(1)) yield ITEM_START + item;
}

function petOf(item: string): bigint {
  return BigInt(item.slice(ITEM_START.length, item.indexOf(',')));
}
