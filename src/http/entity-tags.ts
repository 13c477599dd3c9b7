/** The entity tags of an `If-Match` or `If-None-Match` field (RFC 9110 section 8.8.3), or `*`. What is none is left out. */
export function entityTags(field: string): '*' | readonly { readonly weak: boolean; readonly opaque: string }[] {
  if (field.trim() === '*') return '*';
  return [...field.matchAll(/(?:^|,)[ \t]*(W\/)?"([\x21\x23-\x7e\x80-\xff]*)"[ \t]*(?=,|$)/g)].map(
    ([, weak, opaque = '']) => ({
      weak: weak !== undefined,
      opaque,
    }),
  );
}
