import { ITEM_START, type Piece, type StockList } from '../stock-list.js';

const MOST_TOLD = 20;

/** Says in which pets a kept list differs from the stock; undefined if their bytes are the same. */
export function differencesOf(kept: StockList, stock: StockList): string | undefined {
  const isSame = ({ bytes }: Piece, at: number) => stock.pieces[at]?.bytes.equals(bytes);
  if (kept.pieces.length === stock.pieces.length && kept.pieces.every(isSame)) return undefined;
  const [wrong, right] = [itemsNotIn(stock, kept), itemsNotIn(kept, stock)];
  const pets = [...new Set([...wrong.keys(), ...right.keys()])].filter((pet) => wrong.get(pet) !== right.get(pet));
  const told = pets.slice(0, MOST_TOLD).map((pet) => `${wrong.get(pet) ?? 'nothing'} → ${right.get(pet) ?? 'nothing'}`);
  return `the kept list was wrong and is replaced; find the cause (docs/alerts.md#inventorylistwrong); pets: ${pets.length}, kept → true: ${told.join(', ')}`;
}

/** The items of the pieces that another list does not have, by their pets. */
function itemsNotIn(other: StockList, list: StockList): Map<string, string> {
  const known = new Map(other.pieces.map(({ firstPet, bytes }) => [firstPet, bytes]));
  const pieces = list.pieces.filter(({ firstPet, bytes }) => !known.get(firstPet)?.equals(bytes));
  const items = pieces.flatMap(({ bytes }) => bytes.toString().split(`,${ITEM_START}`).slice(1));
  return new Map(items.map((item) => [item.slice(0, item.indexOf(',')), ITEM_START + item]));
}
