import { isIP } from 'node:net';
import { excerpt, withoutSecrets } from './safe-text.ts';

/** What stands before an @ may be user information, also in an address without its scheme. */
const isSecret = (text: string) => text.includes('@') || withoutSecrets(text) !== text;

/** A secret text must not come here. */
function refuse(form: string, text: string): never {
  throw new Error(`must be ${form}${isSecret(text) ? '' : `, but is "${excerpt(text)}"`}`);
}

export function integer(min: number, max: number) {
  const form = `an integer from ${min} to ${max}`;
  return (text: string): number =>
    /^\d+$/.test(text) && Number(text) >= min && Number(text) <= max ? Number(text) : refuse(form, text);
}

export function oneOf<const T extends string>(...choices: readonly T[]) {
  return (text: string): T => {
    const choice = choices.find((each) => each === text);
    return choice ?? refuse(`one of ${choices.join(', ')}`, text);
  };
}

export function fraction(text: string): number {
  const value = /^\d*\.?\d+$/.test(text) ? Number(text) : NaN;
  return value <= 1 ? value : refuse('a number from 0 to 1', text);
}

export function httpUrl(text: string): string | undefined {
  if (text === '') return undefined;
  if (!/^https?:\/\/[^\s?#]+$/i.test(text) || !URL.canParse(text))
    refuse('a URL of http or https, without ? and #', text);
  return text;
}

/** Anything else would be sent to DNS. Node.js listens on all addresses for an empty one. */
export function listenAddress(text: string): string {
  if (isIP(text) === 0 && !/^[\p{L}\p{N}._-]*$/u.test(text)) refuse('an IP address or a host name', text);
  return text;
}

export function bearerToken(text: string): string | undefined {
  if (text === '') return undefined;
  if (!/^[A-Za-z0-9._~+/-]{32,256}=*$/.test(text) || text.length > 256) {
    throw new Error('must be 32 to 256 characters of A-Z a-z 0-9 . _ ~ + / - (RFC 6750)');
  }
  return text;
}

/** An origin as a browser sends it. */
function isOrigin(text: string): boolean {
  return /^https?:\/\/[\w.:[\]-]+$/.test(text) && URL.canParse(text) && new URL(text).origin === text;
}

export function originList(text: string): string[] {
  const origins = text.split(',').filter((part) => part !== '');
  const wrong = origins.find((origin) => !isOrigin(origin));
  const form = 'origins as a browser sends them, such as https://shop.example, separated by commas';
  return wrong === undefined ? origins : refuse(form, isSecret(text) ? text : wrong); // the part may be half an address
}
