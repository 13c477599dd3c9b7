import { inspect } from 'node:util';
// `.ts` and not `.js`: the programs of dev/ run this file from its source, where there is no `.js`.
import { ApiError } from './api-error.ts';
import { withoutSecrets } from './secrets.ts';

/** An error whose message is written for the operator, a line for each thing to know. */
export class Failure extends Error {}

export const NOT_NEWEST = 'the database has no inventory tables, or not the newest; run "inventory migrate" first';

/** Why an update or an import is refused if a trigger changed its rows. */
export const NOT_AS_ASKED = 'a trigger changed the row or kept it back; let the trigger raise an error instead';

/** The unique indexes of the migrations. Any other unique rule is the operator's own. */
export const OWN_UNIQUE_INDEXES = [
  'inventory_item_pkey',
  'api_key_pkey',
  'api_key_key_sha256_key',
  'stock_change_pkey',
  'stock_change_idempotency_key',
  'server_life_token_pkey',
];
/** Matches the code and the message of a violation of one of these indexes, in any language. */
const OWN_CONFLICT = new RegExp(`^23505\n.*(?<!\\w)(${OWN_UNIQUE_INDEXES.join('|')})(?!\\w)`);

const IN_THE_WAY =
  'another transaction was in the way; nothing was written, try again; after a restore run "inventory migrate" first';

/** What to tell the operator, by a line of the error: its code (of PostgreSQL, Node.js or Prisma) or its message. */
const WORDS: readonly (readonly [RegExp, string])[] = [
  [
    /^(.*(?:certificate|SSL connections|no encryption|unknown ca)[^;\n]*?)[ :]*(?:;.*)?$/m,
    'no TLS with the database of DATABASE_URL: $1; check its host, sslmode, sslrootcert, sslcert and sslkey',
  ],
  [
    /client password must be/,
    'the database wants a password; DATABASE_URL, DATABASE_PASSWORD_FILE and PGPASSWORD have none',
  ],
  [
    /^(timeout expired|SocketTimeout)$|^timeout exceeded|due to connection timeout$|^Query read timeout|^deadline passed/m,
    'the database did not answer in time; check DATABASE_URL and the database',
  ],
  [/^(42P01|42703|42704|42883)$/m, NOT_NEWEST], // a table, column, type or function
  [/^3F000$/m, 'the database has no schema "public", or what DATABASE_URL has as its schema; make it first'],
  [
    /^42501\n.*would be affected by row-level security.*"(.+)"/m,
    'row security hides rows of $1 from the role of DATABASE_URL; use a role with BYPASSRLS, or the owner of the table if that sees all rows',
  ],
  [
    /^42501\n((?:permission denied for(?! schema)|must be owner of) .*)/m,
    'the tables belong to another role than that of DATABASE_URL ($1); restore them as this role or make it their owner (docs/operations.md), or grant it what it needs by deploy/scale/pooled-role.sql; only the owner can run "inventory migrate"',
  ],
  [/^25006$/m, 'the database takes no writes: it is a standby, or default_transaction_read_only is on'],
  [/^55P03$/m, 'another transaction holds what this needs and did not let go in time; nothing was written, try again'],
  [OWN_CONFLICT, IN_THE_WAY],
  [/^40P01$/m, IN_THE_WAY],
  [new RegExp(`.*${NOT_AS_ASKED}.*`), NOT_AS_ASKED],
  [/^57014$/m, 'the database cut the statement off: it took too long, or somebody cancelled it'],
  [
    /^(ConnectionClosed$|Connection terminated)/m,
    'the connection to the database was lost; check DATABASE_URL and the database',
  ],
  [
    /^DatabaseNotReachable$/m,
    'the database cannot be reached: there is no such host, or nothing listens there; check DATABASE_URL',
  ],
  [/^E(?:AI_)?[A-Z]+\n(.*)/, 'the database cannot be reached: $1; check DATABASE_URL'],
];

/** An error of any layer in one line for the operator: no stack, no statement, no connection string. */
export function describeFailure(error: unknown): string {
  if (error instanceof Failure) return error.message;
  const { code = '', message } = rootOf(error instanceof Error ? error : new Error(String(error)));
  for (const [pattern, words] of WORDS) {
    const [found] = pattern.exec(`${code}\n${message}`) ?? [];
    if (found !== undefined) return found.replace(pattern, words);
  }
  return withoutSecrets(`${message.trim().split('\n', 1)[0]}${code && ` (${code})`}`);
}

/** The code and the first words of what the driver said. */
export function codeAndWords(error: Error): string {
  const { code, message } = rootOf(error);
  return `${code} ${message}`;
}

/** Which of the {@link OWN_UNIQUE_INDEXES} refused a row, if one did. */
export function ownConflict(error: Error): string | undefined {
  return OWN_CONFLICT.exec(codeAndWords(error).replace(' ', '\n'))?.[1];
}

interface ErrorFacts {
  readonly code?: string | undefined;
  readonly message: string;
  readonly errors?: unknown[];
  readonly cause?: unknown;
  readonly meta?: { driverAdapterError?: unknown };
}

/** The innermost error: Prisma and Node.js wrap what the driver said. */
function rootOf({ code, message, meta, errors, cause }: ErrorFacts): ErrorFacts {
  // The cause of this error is only what the pool itself did to the connection.
  if (message.endsWith('due to connection timeout')) return { code, message };
  const inner = meta?.driverAdapterError ?? errors?.[0] ?? cause;
  if (inner instanceof Error) return rootOf(inner);
  if (typeof inner !== 'object' || inner === null) return { code, message };
  const { originalCode, kind, originalMessage, reason } = inner as Record<string, string | undefined>;
  return { code: originalCode ?? kind, message: originalMessage ?? reason ?? message };
}

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
