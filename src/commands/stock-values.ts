import { ITEM, itemTag, itemTagOf } from '../inventory/stock-item.js';
import { isPetId } from '../inventory/stock.limits.js';

/** A blank of any kind, also an invisible one of web pages and word processors. \x1a ended a file in DOS. */
const BLANK = String.raw`[\s\x1a\x85\p{Z}\p{Cf}]`;
const AROUND = new RegExp(`^${BLANK}+|${BLANK}+$`, 'gu');
/** An empty row of a sheet: in CSV, it has only blanks, quotes and separators. */
const EMPTY_ROW = new RegExp(`^(${BLANK}|[",;|])*$`, 'u');

export const trimBlanks = (text: string) => text.replace(AROUND, '');
export const isEmptyRow = (line: string) => EMPTY_ROW.test(line);

/** A whole number that is written with a fraction of zero or an exponent, in plain digits. Any other text stays as it is. */
export function plainDigits(text: string): string {
  const [, sign, whole, fraction, exponent] = /^(-?)(0|[1-9]\d*)(?:\.(\d*))?(?:e([+-]?\d{1,3}))?$/i.exec(text) ?? [];
  if (whole === undefined || (fraction === undefined && exponent === undefined)) return text;
  const digits = `${whole}${fraction ?? ''}`;
  const point = Math.max(0, whole.length + Number(exponent ?? 0));
  if (/[1-9]/.test(digits.slice(point))) return text;
  const integer =
    digits
      .slice(0, point)
      .padEnd(point, '0')
      .replace(/^0+(?=.)/, '') || '0';
  return integer === '0' ? '0' : `${sign}${integer}`;
}

/** `12.000` is 12 for some people and 12000 for others; `1,234` is a number or two. */
export const hasThousands = (text: string) => /^-?[1-9]\d{0,2}([.,'’\s]\d{3})+$/u.test(text);

/** Spreadsheets keep 15 digits; other programs 16 or 17, or a double. */
const KEPT_DIGITS = [15, 16, 17];

/** Whether a petId with a fraction or an exponent may have lost digits. */
export const mayBeRounded = (written: string, petId: string) =>
  written !== petId && petId.replace('-', '').length > (KEPT_DIGITS[0] ?? 0);

/** Whether a program that keeps fewer digits may have written `written` for a petId: as `9.91E+15`, or in plain digits. */
export function isRoundedFrom(written: string, petId: string): boolean {
  const plain = plainDigits(written);
  if (!/^-?\d{1,19}$/.test(plain)) return false;
  const [mantissa = ''] = written.split(/e/i);
  const ofExponent = written === mantissa ? [] : [mantissa.replace(/\D/g, '').length];
  const id = BigInt(petId);
  const roundings = [...KEPT_DIGITS, ...ofExponent].flatMap((digits) => [cut(id, digits, 0n), cut(id, digits, 5n)]);
  return [...roundings, BigInt(Number(id)), BigInt(plainDigits(String(Number(id))))].includes(BigInt(plain));
}

/** @param tenths to add to the last digit that stays: 5 rounds */
function cut(id: bigint, digits: number, tenths: bigint): bigint {
  const size = id < 0n ? -id : id;
  const unit = 10n ** BigInt(Math.max(0, String(size).length - digits));
  const kept = ((size + (unit * tenths) / 10n) / unit) * unit;
  return id < 0n ? -kept : kept;
}

/** The column or member of `export --editable`: which pet a row was made from, and from which state of it. */
export const EXPORTED = 'exported';
/** What `exported` tells of a row: it is new, or unedited. Otherwise it was made from the state that an item tag names. */
export const MADE = { new: 'new', unedited: 'same' } as const;

/** SQL for {@link EXPORTED}. Its last colon shows that it is whole; with it, it is text to every spreadsheet. */
export const exportedOf = (row: string) => `${row}.${ITEM.petId.column} || ':' || ${itemTagOf(row)} || ':'`;

/** What {@link EXPORTED} says; undefined if it is not whole. */
export function readExported(text: string): { petId: string; tag: string } | undefined {
  const [, petId = '', tag = ''] = /^([^:]+):([^:]+):$/.exec(text) ?? [];
  return isPetId(petId) && isItemTag(tag) ? { petId, tag } : undefined;
}

export function isItemTag(text: string): boolean {
  const at = text.lastIndexOf('-');
  return ITEM.status.holds(text.slice(0, Math.max(0, at))) && ITEM.quantity.holds(text.slice(at + 1));
}

/** Whether a row still says what its tag says. @param status empty where the row leaves it out */
export function isUnedited(tag: string, quantity: string, status: string): boolean {
  return status === '' ? tag.endsWith(`-${quantity}`) : tag === itemTag({ quantity, status });
}
