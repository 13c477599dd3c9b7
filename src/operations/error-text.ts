import { inspect } from 'node:util';
import { ApiError } from '../errors/api-error.js';

const MAX_CAUSES = 5;

/** What must never be in the log, wherever an error's text may have it from. */
const SECRETS: readonly (readonly [RegExp, string])[] = [
  [/psk_[0-9A-Za-z]+/g, '[key]'],
  [/(bearer\s+)[^\s"']+/gi, '$1[key]'],
  [/(:\/\/[^:/\s]*:)[^@\s]*@/g, '$1[password]@'],
];

/** An error as the log has it: what a person needs to find its cause, without secrets. */
export interface ErrorText {
  readonly type: string;
  readonly message: string;
  readonly code?: string;
  readonly stack?: string;
  readonly cause?: ErrorText;
}

/**
 * Describes whatever was thrown, its causes included. Of an error's other members only `code` is taken. An ApiError has no
 * stack: it tells nothing that its message does not. Prisma's adapter throws plain objects, with the database's own words.
 */
export function describeError(thrown: unknown, depth = 0): ErrorText {
  if (!(thrown instanceof Error)) {
    return { type: typeof thrown, message: withoutSecrets(inspect(thrown, { breakLength: Infinity })) };
  }
  const { code, stack, cause, errors } = thrown as Error & { code?: unknown; errors?: unknown[] };
  const inner = cause ?? errors?.[0];
  return {
    type: thrown.constructor.name,
    message: withoutSecrets(thrown.message),
    ...(typeof code === 'string' && { code }),
    ...(stack !== undefined && !(thrown instanceof ApiError) && { stack: withoutSecrets(stack) }),
    ...(inner !== undefined && depth < MAX_CAUSES && { cause: describeError(inner, depth + 1) }),
  };
}

function withoutSecrets(text: string): string {
  return SECRETS.reduce((clean, [secret, instead]) => clean.replace(secret, instead), text);
}
