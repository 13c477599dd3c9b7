/** Names the form that is wanted and the kind of what was found, never its text: it may be a secret. */
export const mustBe = (form: string, found: string) => `must be ${form}, but is ${found}`;

/** What an integer out of its bounds is. */
function beyond(value: number, isLarger: boolean): string {
  if (!isLarger) return 'smaller';
  return Number.isSafeInteger(value) ? `larger (${String(value).length} digits)` : 'larger';
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
