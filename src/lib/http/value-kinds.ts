/** For messages, which never repeat a client's text, because it may be a secret. */
export function kindOfJson(value: unknown, isLarger = false, isSmaller = false): string {
  if (value === undefined) return 'missing';
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'boolean') return 'true or false';
  if (typeof value === 'string') return 'a text';
  if (typeof value !== 'number') return 'an object';
  if (Number.isFinite(value) && !Number.isInteger(value)) return 'a fraction';
  if (isLarger) return Number.isSafeInteger(value) ? `larger (${String(value).length} digits)` : 'larger';
  return isSmaller ? 'smaller' : 'a number';
}
