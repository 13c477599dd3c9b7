/** The largest quantity: what PostgreSQL's `integer` holds. */
export const MAX_QUANTITY = 2_147_483_647;
export const QUANTITY_FORM = `an integer from 0 to ${MAX_QUANTITY}`;

export const MIN_PET_ID = -(2n ** 63n);
export const MAX_PET_ID = 2n ** 63n - 1n;

/** Whether a text is an int64 in canonical decimal: each pet has one way to be written. */
export function isPetId(text: string): boolean {
  if (!/^(?:0|-?[1-9]\d{0,18})$/.test(text)) return false;
  if (text.length < 19) return true;
  const petId = BigInt(text);
  return petId >= MIN_PET_ID && petId <= MAX_PET_ID;
}
