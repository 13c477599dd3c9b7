/** A replacer for `JSON.stringify`: writes a bigint as a number. */
export function exactIntegers(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' ? JSON.rawJSON(String(value)) : value;
}

declare global {
  interface JSON {
    /** In Node.js since 21, not yet in TypeScript's library. */
    rawJSON(text: string): unknown;
  }
}
