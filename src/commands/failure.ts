import { tlsFailure } from '../database/tls.js';
import { Failure } from '../errors/failure.js';

const unreachable = (why: string) => `the database cannot be reached: ${why}; check DATABASE_URL`;

const NO_ANSWER = unreachable('it did not answer in time');
const NO_PASSWORD = 'the database wants a password; DATABASE_URL, DATABASE_PASSWORD_FILE and PGPASSWORD have none';
export const NOT_NEWEST = 'the database has no inventory tables, or not the newest; run "inventory migrate" first';

/** What to say of a SQLSTATE where PostgreSQL's own words do not tell what to do, and of Prisma's word for the network. */
const ADVICE: Readonly<Record<string, string>> = {
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

/** An error of any layer in words for the operator: no stack, no statement, no connection string. */
export function describeFailure(error: unknown): string {
  if (error instanceof Failure) return error.message;
  const { code = '', message } = rootOf(error as Error);
  const tls = tlsFailure(message);
  if (tls) return tls;
  if (message.includes('client password must be')) return NO_PASSWORD;
  if (/^timeout expired$|timeout exceeded when trying to connect|^Query read timeout/i.test(message)) return NO_ANSWER;
  if (ADVICE[code]) return ADVICE[code];
  if (/^E[A-Z]+$/.test(code)) return unreachable(message);
  if (message.startsWith('Connection terminated'))
    return 'the connection to the database was lost; check DATABASE_URL and the database';
  return `${message.trim().split('\n', 1)[0]}${code && ` (${code})`}`;
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
