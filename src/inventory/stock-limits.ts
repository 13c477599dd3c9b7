import { holdsKey } from '../errors/secrets.js';

/** The largest quantity: what PostgreSQL's `integer` holds. */
export const MAX_QUANTITY = 2_147_483_647;
export const QUANTITY_FORM = `an integer from 0 to ${MAX_QUANTITY}`;

export const MIN_PET_ID = -(2n ** 63n);
export const MAX_PET_ID = 2n ** 63n - 1n;

/** Whether a text is an int64 in canonical decimal, so that each pet has one way to be written. It never becomes a number. */
export function isPetId(text: string): boolean {
  if (!/^(?:0|-?[1-9]\d{0,18})$/.test(text)) return false;
  if (text.length < 19) return true;
  const petId = BigInt(text);
  return petId >= MIN_PET_ID && petId <= MAX_PET_ID;
}

/** The form of what a client adds to the history. */
export const LONGEST_NAME = 64;
export const SAFE_NAME = new RegExp(`^[A-Za-z0-9_-]{1,${LONGEST_NAME}}$`);

/** One that looks like an API key would go into the history. */
export const isSafeName = (text: string) => SAFE_NAME.test(text) && !holdsKey(text);
export const SAFE_NAME_RULE = `1 to ${LONGEST_NAME} of the characters A-Z, a-z, 0-9, _ and -, and no API key`;
