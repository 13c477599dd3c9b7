import { setImmediate as nextTurn } from 'node:timers/promises';
import { ITEM_START, type Piece } from '../list/stock-list.ts';

const MOST_SHOWN = 20;

/** Finds in which pets a kept list differs from the stock. Both are sorted, so it goes through them side by side. */
export class ListDifferences {
  pets = 0;
  /** The first of them. */
  readonly shown: string[] = [];

  /** @returns the pieces of the stock: the kept ones where they are equal, so that they are not in memory twice */
  async between(keptPieces: Iterable<Piece>, stock: AsyncIterable<Piece>): Promise<Piece[]> {
    const kept = new KeptItems(keptPieces);
    const pieces: Piece[] = [];
    for await (const piece of stock) {
      const same = kept.takePiece(piece);
      pieces.push(same ?? piece);
      if (!same) for (const item of itemsOf(piece)) this.#compare(kept, item);
      await nextTurn(); // requests first
    }
    while (kept.next !== undefined) this.#add(kept.take());
    return pieces;
  }

  #compare(kept: KeptItems, item: string): void {
    const pet = petOf(item);
    while (kept.next !== undefined && petOf(kept.next) < pet) this.#add(kept.take());
    const isKept = kept.next !== undefined && petOf(kept.next) === pet;
    const present = isKept ? kept.take() : undefined;
    if (present !== item) this.#add(present, item);
  }

  #add(kept = 'nothing', item = 'nothing'): void {
    this.pets++;
    if (this.pets <= MOST_SHOWN) this.shown.push(`${kept} → ${item}`);
  }
}

/** What is left of a kept list. */
class KeptItems {
  readonly #pieces: Iterator<Piece>;
  #piece: Piece | undefined;
  /** Those of the piece before. */
  #items: readonly string[] = [];
  #at = 0;

  constructor(pieces: Iterable<Piece>) {
    this.#pieces = pieces[Symbol.iterator]();
    this.#toNextPiece();
  }

  get next(): string | undefined {
    if (this.#at === this.#items.length && this.#piece) {
      this.#items = itemsOf(this.#piece);
      this.#at = 0;
      this.#toNextPiece();
    }
    return this.#items[this.#at];
  }

  take(): string | undefined {
    const { next } = this;
    this.#at++;
    return next;
  }

  /** Takes the next piece if it is whole and equals this one. */
  takePiece({ bytes }: Piece): Piece | undefined {
    const piece = this.#piece;
    if (this.#at < this.#items.length || !piece?.bytes.equals(bytes)) return undefined;
    this.#toNextPiece();
    return piece;
  }

  #toNextPiece(): void {
    const step = this.#pieces.next();
    this.#piece = step.done === true ? undefined : step.value;
  }
}

function itemsOf({ bytes }: Piece): string[] {
  const items = bytes.toString().split(`,${ITEM_START}`).slice(1);
  return items.map((item) => ITEM_START + item);
}

function petOf(item: string): bigint {
  return BigInt(item.slice(ITEM_START.length, item.indexOf(',')));
}
