import { inspect } from 'node:util';
// `.ts` and not `.js`: the programs of dev/ run this file from its source, where there is no `.js`.
import { ApiError } from './api-error.ts';

/** What was asked for could not be done. The message is written for the operator, a line for each thing to know. */
export class Failure extends Error {}

/** What must never be told, wherever an error's text may have it from. */
const SECRETS: readonly (readonly [RegExp, string])[] = [
  [/psk_[0-9A-Za-z]+/g, '[key]'],
  [/(bearer\s+)[^\s"']+/gi, '$1[key]'],
  [/(:\/\/[^:/\s]*:)[^@\s]*@/g, '$1[password]@'],
];

function withoutSecrets(text: string): string {
  return SECRETS.reduce((clean, [secret, instead]) => clean.replace(secret, instead), text);
}

const unreachable = (why: string) => `the database cannot be reached: ${why}; check DATABASE_URL`;
const withoutTls = (why: string) => `no TLS with the database of DATABASE_URL: ${why}`;

const NO_ANSWER = 'the database did not answer in time; check DATABASE_URL and the database';
export const NOT_NEWEST = 'the database has no inventory tables, or not the newest; run "inventory migrate" first';

/** What to say where PostgreSQL's own words do not tell what to do: of a SQLSTATE, and of Prisma's word for the network. */
const WORDS_OF_CODE: Readonly<Record<string, string>> = {
  DatabaseNotReachable: unreachable('there is no such host, or nothing listens there'),
  ConnectionClosed: unreachable('it cut the connection'),
  SocketTimeout: NO_ANSWER,
  '42P01': NOT_NEWEST,
  '42703': NOT_NEWEST, // a column
  '42704': NOT_NEWEST, // a type
  '42883': NOT_NEWEST, // a function
  '3F000': 'the database has no schema "public", or what DATABASE_URL has as its schema; make it first',
  '25006': 'the database takes no writes: it is a standby, or default_transaction_read_only is on',
  '55P03': 'another transaction holds what this needs and did not let go in time; nothing was written, try again',
  '23505':
    'another transaction wrote the same at the same time; nothing was written, try again; after a restore run "inventory migrate" first',
  '40P01': 'another transaction and this one waited for each other; nothing was written, try again',
  '57014': 'the database cut the statement off: it took too long, or somebody cancelled it',
};

/** What to say of a message of Node.js, the driver, PostgreSQL or the service's own deadline, as any layer passes it on. */
const WORDS_OF_MESSAGE: readonly (readonly [RegExp, string])[] = [
  [
    /self-signed certificate|unable to (get|verify) .*(certificate|issuer)|certificate signature failure/,
    withoutTls('no authority in its sslrootcert vouches for the certificate of the server'),
  ],
  [
    /Hostname\/IP does not match certificate's altnames: (?:Host: |IP: )?(.*?)[ :`]*$/m,
    withoutTls("its host is not the one of the server's certificate: $1"),
  ],
  [/certificate has expired|certificate is not yet valid/, withoutTls("the server's $&")],
  [/server does not support SSL connections/, withoutTls('its sslmode asks for TLS, which the server does not speak')],
  [/no pg_hba\.conf entry .*no encryption/, withoutTls('the server wants TLS of this client: add sslmode=verify-full')],
  [
    /requires a valid client certificate|alert (certificate required|unknown ca|bad certificate)/,
    withoutTls('the server wants a client certificate that it knows: check sslcert and sslkey'),
  ],
  [
    /client password must be/,
    'the database wants a password; DATABASE_URL, DATABASE_PASSWORD_FILE and PGPASSWORD have none',
  ],
  [/^timeout expired$|timeout exceeded when trying to connect|due to connection timeout$/, NO_ANSWER],
  [/^Query read timeout|^deadline passed/, NO_ANSWER],
];

/** An error of any layer in one line for the operator: no stack, no statement, no connection string. */
export function describeFailure(error: unknown): string {
  if (error instanceof Failure) return error.message;
  const { code = '', message } = rootOf(error instanceof Error ? error : new Error(String(error)));
  for (const [pattern, words] of WORDS_OF_MESSAGE) {
    const [found] = pattern.exec(message) ?? [];
    if (found !== undefined) return found.replace(pattern, words);
  }
  if (WORDS_OF_CODE[code]) return WORDS_OF_CODE[code];
  if (/^E[A-Z]+$/.test(code)) return unreachable(message);
  if (message.startsWith('Connection terminated'))
    return 'the connection to the database was lost; check DATABASE_URL and the database';
  return withoutSecrets(`${message.trim().split('\n', 1)[0]}${code && ` (${code})`}`);
}

interface ErrorFacts {
  readonly code?: string | undefined;
  readonly message: string;
  readonly errors?: unknown[];
  readonly cause?: unknown;
  readonly meta?: { driverAdapterError?: unknown };
}

/** Prisma and Node wrap what the driver said; the innermost error is the one that tells something. */
function rootOf({ code, message, meta, errors, cause }: ErrorFacts): ErrorFacts {
  // A pool that gives a connection up says so; what it has as the cause is what this did to the connection.
  const inner = message.endsWith('due to connection timeout')
    ? undefined
    : (meta?.driverAdapterError ?? errors?.[0] ?? cause);
  if (inner instanceof Error) return rootOf(inner);
  if (typeof inner !== 'object' || inner === null) return { code, message };
  const { originalCode, kind, originalMessage, reason } = inner as Record<string, string | undefined>;
  return { code: originalCode ?? kind, message: originalMessage ?? reason ?? message };
}

const MAX_CAUSES = 5;

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
