/** A replacer for `JSON.stringify`: writes a bigint as a number. */
export function exactIntegers(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' ? JSON.rawJSON(String(value)) : value;
}

/** The name of the first member that an object of this valid JSON text has twice. */
export function duplicateMember(text: string): string | undefined {
  if (text.indexOf(':') === text.lastIndexOf(':')) return undefined; // one member at most
  const open: Set<string>[] = [];
  for (const [token, quoted, colon] of text.matchAll(/("(?:[^"\\]|\\.)*")\s*(:?)|[{}[\]]/g)) {
    if (token === '{' || token === '[') open.push(new Set());
    else if (token === '}' || token === ']') open.pop();
    else if (colon && quoted !== undefined) {
      const name = JSON.parse(quoted) as string;
      if (open.at(-1)?.has(name)) return name;
      open.at(-1)?.add(name);
    }
  }
  return undefined;
}

declare global {
  interface JSON {
    /** In Node.js since 21, not yet in TypeScript's library. */
    rawJSON(text: string): unknown;
  }
}
