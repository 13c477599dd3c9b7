import { tlsFailure } from '../database/tls.js';
import { Failure } from '../errors/failure.js';

const NO_ANSWER = 'it did not answer in time';
export const NOT_NEWEST = 'the database has no inventory tables, or not the newest; run "inventory migrate" first';
const NO_PASSWORD = 'the database wants a password; DATABASE_URL, DATABASE_PASSWORD_FILE and PGPASSWORD have none';

/** What to say of a SQLSTATE, where PostgreSQL's own words do not tell what to do. */
const ADVICE: Readonly<Record<string, string>> = {
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
  '57014': 'the database cut the statement off because it took too long; nothing was written',
};

/** Prisma keeps only such a word of what Node.js said of the network. */
const NETWORK: Readonly<Record<string, string>> = {
  DatabaseNotReachable: 'there is no such host, or nothing listens there',
  ConnectionClosed: 'it cut the connection',
  SocketTimeout: NO_ANSWER,
};

/** An error of any layer in words for the operator: no stack, no statement, no connection string. */
export function describeFailure(error: unknown): string {
  if (!(error instanceof Error)) return 'something unexpected was thrown';
  if (error instanceof Failure) return error.message;
  const { code = '', message } = rootOf(error);
  const tls = tlsFailure(message);
  if (tls) return tls;
  if (message.includes('client password must be')) return NO_PASSWORD;
  const isUnanswered = /^timeout expired$|timeout exceeded when trying to connect|^Query read timeout/i.test(message);
  const network = isUnanswered ? NO_ANSWER : (NETWORK[code] ?? (/^E[A-Z]+$/.test(code) ? message : undefined));
  if (network) return `the database cannot be reached: ${network}; check DATABASE_URL`;
  if (message.startsWith('Connection terminated'))
    return 'the connection to the database was lost; check DATABASE_URL and the database';
  return ADVICE[code] ?? `${message.trim().split('\n', 1)[0]}${code && ` (${code})`}`;
}

interface ErrorFacts {
  code?: string | undefined;
  message: string;
  errors?: unknown[];
  cause?: unknown;
  meta?: { driverAdapterError?: unknown };
}

/** Prisma and Node wrap what the driver said; the innermost error is the one that tells something. */
function rootOf({ code, message, meta, errors, cause }: ErrorFacts): ErrorFacts {
  const inner = meta?.driverAdapterError ?? errors?.[0] ?? cause;
  if (inner instanceof Error) return rootOf(inner);
  if (typeof inner !== 'object' || inner === null) return { code, message };
  const { originalCode, kind, originalMessage, reason } = inner as Record<string, string | undefined>;
  return { code: originalCode ?? kind, message: originalMessage ?? reason ?? message };
}
