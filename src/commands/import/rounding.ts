/** Spreadsheets keep 15 digits; other programs 16 or 17, or a double, which has all digits up to 2^53. */
const KEPT_DIGITS = [15, 16, 17];
const EXACT_UP_TO = 2n ** 53n;

/** What programs make of a petId, by their way of rounding. A double is written in full, or with zeros at its end. */
function roundingsOf(petId: bigint): readonly (readonly bigint[])[] {
  const length = lengthOf(petId);
  const double = Number(petId);
  const doubles = [[BigInt(double)], [BigInt(String(double))]];
  return [...KEPT_DIGITS.map((digits) => cut(petId, length - digits)), ...doubles];
}

const lengthOf = (petId: bigint) => String(petId < 0n ? -petId : petId).length;

/** A petId with zeros in place of its last digits: cut off, and rounded. LibreOffice rounds the double of it. */
function cut(petId: bigint, digits: number): readonly bigint[] {
  if (digits <= 0) return [petId];
  const unit = 10n ** BigInt(digits);
  const half = (petId < 0n ? -unit : unit) / 2n;
  return [petId, petId + half, BigInt(Number(petId)) + half].map((id) => id - (id % unit));
}

/** The ways of rounding, one bit each. */
export type Ways = number;
export const ALL_WAYS: Ways = 2 ** (KEPT_DIGITS.length + 2) - 1;

/** The ways that leave a petId as it is: those that make it of itself. */
export function waysThatKeep(petId: string): Ways {
  const digits = petId.replace('-', '').replace(/0+$/, '').length;
  const double = Number(petId);
  const keeps = [
    ...KEPT_DIGITS.map((kept) => digits <= kept),
    BigInt(double) === BigInt(petId),
    String(double) === petId,
  ];
  return keeps.reduce((ways, isKept, at) => ways | (isKept ? 1 << at : 0), 0);
}

/** The ways that make `written` of a petId. */
export function waysFrom(petId: bigint, written: bigint): Ways {
  return roundingsOf(petId).reduce((ways, made, at) => ways | (made.includes(written) ? 1 << at : 0), 0);
}

/** How far from an id the petIds lie that these ways round to it, at most. */
export function reachOf(id: bigint, ways: Ways): bigint {
  const size = id < 0n ? -id : id;
  const doubles = size < EXACT_UP_TO ? 0n : size / 2n ** 52n + 1n;
  const reaches = [
    ...KEPT_DIGITS.map((digits) => (lengthOf(id) > digits ? 10n ** BigInt(lengthOf(id) - digits) + doubles : 0n)),
    doubles,
    doubles,
  ];
  return reaches.reduce((most, reach, at) => ((ways & (1 << at)) !== 0 && reach > most ? reach : most), 0n);
}

/** @param written an integer, in plain digits or as `9.91E+15`, which keeps as many digits as it shows */
export function isRoundedFrom(written: string, plain: string, petId: bigint): boolean {
  if (!/^-?\d{1,19}$/.test(plain)) return false;
  const [mantissa = ''] = written.split(/e/i);
  const kept = mantissa.replace(/\D/g, '').length;
  const isShort = mantissa !== written && cut(petId, lengthOf(petId) - kept).includes(BigInt(plain));
  return isShort || waysFrom(petId, BigInt(plain)) !== 0;
}
