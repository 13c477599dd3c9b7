import { isIP } from 'node:net';
import { passwordReader } from './lib/postgres/index.ts';

/** Names the form that is wanted and the kind of what was found, never its text: it may be a secret. */
function refuse(form: string, text: string, verb = 'is', found = kindOfText(text)): never {
  throw new Error(`must be ${form}, but ${verb} ${found}`);
}

export function integer(min: number, max: number) {
  const form = `an integer from ${min} to ${max}`;
  return (text: string): number => {
    if (!/^\d+$/.test(text)) refuse(form, text);
    const value = Number(text);
    if (value >= min && value <= max) return value;
    const length = Number.isSafeInteger(value) ? ` (${String(value).length} digits)` : '';
    return refuse(form, text, 'is', value < min ? 'smaller' : `larger${length}`);
  };
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

/** Others would be looked up as names in vain. Node.js listens on all addresses for an empty one. */
export function listenAddress(text: string): string {
  if (isIP(text) === 0 && !/^[\p{L}\p{N}._-]*$/u.test(text)) refuse('an IP address or a host name', text);
  return text;
}

export function passwordFile(file: string): string | undefined {
  if (file === '') return undefined;
  passwordReader(file); // throws when there is none
  return file;
}

export function bearerToken(text: string): string | undefined {
  if (text === '') return undefined;
  if (!/^[A-Za-z0-9._~+/-]{32,256}=*$/.test(text) || text.length > 256) {
    refuse('32 to 256 characters of A-Z a-z 0-9 . _ ~ + / - (RFC 6750)', text);
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
  return wrong === undefined ? origins : refuse(form, wrong, 'has');
}

/** The first row that fits counts. */
const KINDS_OF_TEXT: readonly (readonly [pattern: RegExp, kind: string, counted?: string])[] = [
  [/^$/, 'empty'],
  [/\s/, 'a text with a blank or a line break', 'character'],
  [/^(["'`]).*\1$/s, 'a text in quotes'],
  [/[^!-~]/, 'a text with a character beyond ASCII'],
  [/^\*$|:\/\/.*\*/, 'a pattern'],
  [/^(?:http:.*:80|https:.*:443)$/, 'a URL with its default port'],
  [/^[\w+.-]+:\/\/[^/]*\//, 'a URL with a slash behind its host'],
  [/^https?:\/\/[^A-Z]*$/, 'a URL'],
  [/^https?:\/\//i, 'a URL with capital letters'],
  [/^[\w+.-]+:\/\//, 'a URL that is not of http or https'],
  [/^(?:[\w.-]+|\[.*\]):\d+$/, 'a host with a port'],
  [/^\[.*\]$/, 'an address in brackets'],
  [/^-\d+$/, 'a negative integer'],
  [/^[+-]?\d*\.\d+$/, 'a fraction'],
  [/^\d[\d.]*[a-z%]+$/i, 'a number with a unit'],
  [/^\d+$/, 'a number', 'digit'],
  [/^[A-Z_]+$/, 'a name in capital letters', 'character'],
  [/^[a-z_][\w.-]*$/i, 'a name', 'character'],
  [/(?:)/, 'a text', 'character'],
];

function kindOfText(text: string): string {
  const [, kind, counted] = KINDS_OF_TEXT.find(([pattern]) => pattern.test(text)) ?? [];
  return counted === undefined ? String(kind) : `${kind} (${text.length} ${counted}${text.length === 1 ? '' : 's'})`;
}
