import { ITEM_START, Piece, StockList, beginsPiece, petAt } from '../list/stock-list.ts';

/** A pet that has changed, with its item as JSON; null when the pet is gone. */
export interface ChangedPet {
  readonly petId: string;
  readonly item: string | null;
}

const COMMA = Buffer.from(',');

/**
 * The list after changes; the pieces that they do not touch are shared.
 *
 * @param changes in ascending order of their pets
 */
export function patched(list: StockList, changes: readonly ChangedPet[]): StockList {
  if (changes.length === 0) return list;
  const { pieces } = list;
  const patchedPieces: Piece[] = [];
  const changesOfPieces = Map.groupBy(changes, ({ petId }) => pieceOf(pieces, BigInt(petId)));
  for (const [at, piece] of pieces.entries()) {
    const changesOfPiece = changesOfPieces.get(at);
    const items = changesOfPiece ? patchedItems(piece.bytes, changesOfPiece) : piece.bytes;
    let next = items.length === 0 ? [] : [changesOfPiece ? new Piece(items) : piece];
    // A pet that begins a piece may have come or gone, or may no longer be the first of the list.
    if (changesOfPiece?.some(({ petId }) => beginsPiece(petId) || BigInt(petId) < piece.firstPet)) {
      next = Piece.cut((patchedPieces.pop()?.bytes.toString() ?? '') + items.toString());
    }
    patchedPieces.push(...next);
  }
  return new StockList(patchedPieces);
}

/** The piece that has a pet, or would have it. */
function pieceOf(pieces: readonly Piece[], petId: bigint): number {
  let low = 0;
  for (let high = pieces.length; high - low > 1;) {
    const middle = (low + high) >>> 1;
    if ((pieces[middle]?.firstPet ?? petId) <= petId) low = middle;
    else high = middle;
  }
  return low;
}

function patchedItems(items: Buffer, changes: readonly ChangedPet[]): Buffer {
  const parts: Buffer[] = [];
  let from = 0;
  for (const { petId, item } of changes) {
    const at = placeOf(items, BigInt(petId));
    parts.push(items.subarray(from, at));
    if (item !== null) parts.push(COMMA, Buffer.from(item));
    from = placeOf(items, BigInt(petId) + 1n);
  }
  return Buffer.concat([...parts, items.subarray(from)]);
}

/** Where the first item begins that is not of an earlier pet. */
function placeOf(items: Buffer, petId: bigint): number {
  let low = 0;
  for (let high = items.length; low < high;) {
    const middle = (low + high) >>> 1;
    const at = nextItem(items, middle);
    if (at < high && petAt(items, at) < petId) low = at + 1;
    else high = middle;
  }
  return nextItem(items, low);
}

function nextItem(items: Buffer, from: number): number {
  const start = items.indexOf(ITEM_START, from + 1, 'latin1');
  return start === -1 ? items.length : start - 1;
}
