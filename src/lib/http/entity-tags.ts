/** RFC 9110 section 8.8.3. */
const TAG = '(?:W/)?"[!#-~\\x80-\\xff]*"';

/** `*`, or one entity tag or more with commas between them; empty elements do no harm (RFC 9110 section 5.6.1). */
export const ENTITY_TAG_LIST = new RegExp(`^(?:\\*|[ \\t,]*${TAG}(?:[ \\t]*,[ \\t,]*${TAG})*[ \\t,]*)$`);

/** The entity tags of an `If-Match` or `If-None-Match` field, or `*`; undefined where it is malformed. */
export function entityTags(field: string): '*' | { weak: boolean; opaque: string }[] | undefined {
  if (!ENTITY_TAG_LIST.test(field)) return undefined;
  if (field === '*') return '*';
  return [...field.matchAll(/(W\/)?"([^"]*)"/g)].map(([, weak, opaque = '']) => ({ weak: weak !== undefined, opaque }));
}
