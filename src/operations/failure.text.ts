import { ApiError } from '../errors/api-error.js';

const LONGEST_CAUSE_CHAIN = 5;

/** What must never be in the log, wherever an error's text may have it from. */
const SECRETS: readonly (readonly [RegExp, string])[] = [
  [/psk_[0-9A-Za-z]+/g, '[key]'],
  [/(bearer\s+)[^\s"']+/gi, '$1[key]'],
  [/(:\/\/[^:/\s]*:)[^@\s]*@/g, '$1[password]@'],
];

/** A failure as the log has it: what a person needs to find its cause, without secrets. */
export interface FailureText {
  readonly type: string;
  readonly message: string;
  readonly code?: string;
  readonly stack?: string;
  readonly cause?: unknown;
}

/** Takes the secrets out of a text that others wrote. */
export function withoutSecrets(text: string): string {
  return SECRETS.reduce((clean, [secret, instead]) => clean.replace(secret, instead), text);
}

/**
 * Describes whatever was thrown, its causes included. Of an error's other members only `code` is taken. A refusal that the
 * service decided on has no stack: it tells nothing that its message does not.
 */
export function describeFailure(thrown: unknown, depth = 0): FailureText {
  if (!(thrown instanceof Error)) return { type: typeof thrown, message: withoutSecrets(asText(thrown)) };
  const { code, cause } = thrown as { code?: unknown; cause?: unknown };
  const inner = cause ?? (thrown instanceof AggregateError ? (thrown.errors as unknown[])[0] : undefined);
  return {
    type: thrown.constructor.name,
    message: withoutSecrets(thrown.message),
    ...(typeof code === 'string' && { code }),
    ...(thrown.stack !== undefined && !(thrown instanceof ApiError) && { stack: withoutSecrets(thrown.stack) }),
    ...(inner !== undefined && depth < LONGEST_CAUSE_CHAIN && { cause: describeFailure(inner, depth + 1) }),
  };
}

/** Prisma's adapter gives the database's own words as a plain object. */
function asText(thrown: unknown): string {
  if (typeof thrown !== 'object' || thrown === null) return String(thrown);
  try {
    return JSON.stringify(thrown);
  } catch {
    return 'an object that is not JSON';
  }
}
