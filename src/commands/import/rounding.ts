/** Spreadsheets keep 15 digits; other programs 16 or 17, or a double, which has all digits up to 2^53. */
const KEPT_DIGITS = [15, 16, 17] as const;
const EXACT_UP_TO = 2n ** 53n;

/** What programs make of a petId. A double is written in full, or with zeros at its end. */
function roundingsOf(petId: bigint): readonly bigint[] {
  const double = Number(petId);
  const length = lengthOf(petId);
  return [BigInt(double), BigInt(String(double)), ...KEPT_DIGITS.flatMap((digits) => cut(petId, length - digits))];
}

export const isLong = (petId: string) => petId.replace('-', '').length > KEPT_DIGITS[0];
const lengthOf = (petId: bigint) => String(petId < 0n ? -petId : petId).length;

/** A petId with zeros in place of its last digits: cut off, and rounded. LibreOffice rounds the double of it. */
function cut(petId: bigint, digits: number): readonly bigint[] {
  if (digits <= 0) return [petId];
  const unit = 10n ** BigInt(digits);
  const half = (petId < 0n ? -unit : unit) / 2n;
  return [petId, petId + half, BigInt(Number(petId)) + half].map((id) => id - (id % unit));
}

/** How far from a long petId those lie that a program may have rounded to it. 0 if it is exact, and so its file. */
export function reachOf(petId: bigint): bigint {
  const size = petId < 0n ? -petId : petId;
  const gap = size < EXACT_UP_TO ? 0n : size / 2n ** 52n + 1n; // between doubles
  const zeros = /0*$/.exec(String(petId))?.[0].length ?? 0;
  if (zeros > 0) return 10n ** BigInt(Math.min(zeros, lengthOf(petId) - KEPT_DIGITS[0])) + gap;
  return BigInt(Number(petId)) === petId ? gap : 0n;
}

/** @param written an integer, in plain digits or as `9.91E+15`, which keeps as many digits as it shows */
export function isRoundedFrom(written: string, plain: string, petId: bigint): boolean {
  if (!/^-?\d{1,19}$/.test(plain)) return false;
  const [mantissa = ''] = written.split(/e/i);
  const kept = mantissa.replace(/\D/g, '').length;
  const isShort = mantissa !== written && cut(petId, lengthOf(petId) - kept).includes(BigInt(plain));
  return isShort || roundingsOf(petId).includes(BigInt(plain));
}
