import { inspect } from 'node:util';
// `.ts` and not `.js`: the programs of dev/ run this file from its source, where there is no `.js`.
import { ApiError } from '../lib/http/api-error.ts';
import { withoutSecrets } from '../keys/safe-text.ts';

/** An error whose message is written for the operator, a line for each thing to know. */
export class Failure extends Error {}

const MAX_CAUSES = 5;
/** An error for the log, without secrets. Prisma's adapter throws plain objects. The stack of an ApiError tells nothing. */
export function describeError(thrown: unknown, depth = 0): object {
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
