/*
 * A refused setting or member is told by the form that is wanted and by the kind of what was found. Its text is never told: it may be
 * a secret.
 */

export const mustBe = (form: string, found: string, verb = 'is') => `must be ${form}, but ${verb} ${found}`;

const count = (length: number, noun: string) => `(${length} ${noun}${length === 1 ? '' : 's'})`;

/** What an integer out of its bounds is. */
export function beyond(value: number, isLarger: boolean): string {
  if (!isLarger) return 'smaller';
  return Number.isSafeInteger(value) ? `larger ${count(String(value).length, 'digit')}` : 'larger';
}

/** @param isLarger where an integer is wanted: whether one that is out of its bounds is above them */
export function kindOfJson(value: unknown, isLarger?: boolean): string {
  if (value === undefined) return 'missing';
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'boolean') return 'true or false';
  if (typeof value === 'string') return 'a text';
  if (typeof value !== 'number') return 'an object';
  if (Number.isFinite(value) && !Number.isInteger(value)) return 'a fraction';
  return isLarger === undefined ? 'a number' : beyond(value, isLarger);
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

export function kindOfText(text: string): string {
  const [, kind, counted] = KINDS_OF_TEXT.find(([pattern]) => pattern.test(text)) ?? [];
  return counted === undefined ? String(kind) : `${kind} ${count(text.length, counted)}`;
}
