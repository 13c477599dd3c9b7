/** Spreadsheets keep 15 digits; other programs 16 or 17, or a double, which has all digits up to 2^53. */
const KEPT_DIGITS = [15, 16, 17];
const EXACT_UP_TO = 2n ** 53n;

/** What programs make of a petId, by their way of rounding. A double is written in full, or with zeros at its end. */
function roundingsOf(petId: bigint): readonly (readonly bigint[])[] {
  const double = Number(petId);
  return [...KEPT_DIGITS.map((digits) => cut(petId, digits)), [BigInt(double)], [BigInt(String(double))]];
}

/** The ways of rounding, one bit each. */
export type Ways = number;
export const ALL_WAYS: Ways = 2 ** (KEPT_DIGITS.length + 2) - 1;

/** The ways that make `written` of a petId. The ways that make a petId of itself leave it as it is. */
export function waysFrom(petId: bigint, written: bigint): Ways {
  return roundingsOf(petId).reduce((ways, made, at) => ways | (made.includes(written) ? 1 << at : 0), 0);
}

/** How far from an id the petIds lie that these ways round to it, at most. */
export function reachOf(id: bigint, ways: Ways): bigint {
  const size = id < 0n ? -id : id;
  const doubles = size < EXACT_UP_TO ? 0n : size / 2n ** 52n + 1n;
  const reaches = [...KEPT_DIGITS.map((digits) => unitOf(size, digits)), doubles, doubles];
  return reaches.reduce((most, reach, at) => ((ways & (1 << at)) !== 0 && reach > most ? reach : most), 0n);
}

/** The lowest digit that stays, as a number; 0 where all digits stay. */
function unitOf(size: bigint, digits: number): bigint {
  const lost = String(size).length - digits;
  return lost > 0 ? 10n ** BigInt(lost) : 0n;
}

/** A petId of which so many digits are kept, and zeros in place of the others: cut off, and rounded. */
function cut(petId: bigint, digits: number): readonly [bigint, bigint] {
  const unit = unitOf(petId < 0n ? -petId : petId, digits);
  if (unit === 0n) return [petId, petId];
  const off = petId - (petId % unit);
  return [off, ((petId + (petId < 0n ? -unit : unit) / 2n) / unit) * unit];
}

/** @param written an integer, in plain digits or as `9.91E+15`, which keeps as many digits as it shows */
export function isRoundedFrom(written: string, plain: string, petId: bigint): boolean {
  if (!/^-?\d{1,19}$/.test(plain)) return false;
  const [mantissa = ''] = written.split(/e/i);
  const isShort = mantissa !== written && cut(petId, mantissa.replace(/\D/g, '').length).includes(BigInt(plain));
  return isShort || waysFrom(petId, BigInt(plain)) !== 0;
}
