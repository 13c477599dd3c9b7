import { inspect } from 'node:util';
import { HttpError } from '../lib/http/index.ts';
import { withoutSecrets } from '../safe-text.ts';

const MAX_CAUSES = 5;

/** An error for the log, without secrets. Prisma's adapter has plain objects as causes. An HttpError needs no stack. */
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
    ...(stack !== undefined && !(thrown instanceof HttpError) && { stack: withoutSecrets(stack) }),
    ...(inner !== undefined && depth < MAX_CAUSES && { cause: describeError(inner, depth + 1) }),
  };
}
