import { hash, randomInt } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { KEY_PREFIX } from '../safe-text.ts';

const SECRET_LENGTH = 42; // 250 bits: each base62 character carries 5.95
const CHECKSUM_LENGTH = 6; // 62^6 is more than 2^32
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** Without i, l, o and u, so that an id survives being read aloud; 32 characters, 5 bits each. */
const ID_ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';

/** A new key: `psk_`, 42 random base62 characters from the system's CSPRNG, and a checksum of 6. */
export function makeKey(): string {
  const body = KEY_PREFIX + randomText(BASE62, SECRET_LENGTH);
  return body + checksum(body);
}

export const sha256OfKey = (key: string) => hash('sha256', key, 'buffer');

/** Independent of the key, so that it gives nothing away. */
export const makeKeyId = () => randomText(ID_ALPHABET, 8);

function checksum(body: string): string {
  let rest = crc32(body);
  let text = '';
  for (let place = 0; place < CHECKSUM_LENGTH; place++) {
    text = BASE62.charAt(rest % BASE62.length) + text;
    rest = Math.floor(rest / BASE62.length);
  }
  return text;
}

function randomText(alphabet: string, length: number): string {
  return Array.from({ length }, () => alphabet.charAt(randomInt(alphabet.length))).join('');
}
