/** A replacer for `JSON.stringify`: writes a bigint as a number. */
export function exactIntegers(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' ? JSON.rawJSON(String(value)) : value;
}

/** The first member that an object of this valid JSON text has twice, and where its name stands the second time. */
export function duplicateMember(text: string): { readonly name: string; readonly at: number } | undefined {
  if (text.indexOf(':') === text.lastIndexOf(':')) return undefined; // one member at most
  const open: Set<string>[] = [];
  for (const { 0: token, 1: quoted, 2: colon, index } of text.matchAll(/("(?:[^"\\]|\\.)*")\s*(:?)|[{}[\]]/g)) {
    if (token === '{' || token === '[') open.push(new Set());
    else if (token === '}' || token === ']') open.pop();
    else if (colon && quoted !== undefined) {
      const name = JSON.parse(quoted) as string;
      if (open.at(-1)?.has(name)) return { name, at: index };
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
