import { MigrationError } from '../database/migrations.js';
import { KeyRefusal } from '../auth/api-key.store.js';
import { tlsFailure } from '../database/tls.js';
import { SettingError } from '../settings.js';

/** What was asked for could not be done. The message is written for the operator, a line for each thing to know. */
export class Failure extends Error {}

/** What to say of a SQLSTATE, where PostgreSQL's own words do not tell what to do. */
const ADVICE: Readonly<Record<string, string>> = {
  '42P01': 'the database has no inventory tables, or not the newest; run "inventory migrate" first',
  '25006': 'the database is a standby, which has not all; DATABASE_URL has to lead to the primary',
  '55P03': 'another transaction holds what this needs and did not let go in time; nothing was written, try again',
  '40P01': 'another transaction and this one waited for each other; nothing was written, try again',
  '57014': 'the database cut the statement off because it took too long; nothing was written',
};

const NETWORK: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there (connection refused)',
  ENOTFOUND: 'its host name is unknown',
  EAI_AGAIN: 'its host name could not be looked up',
  EHOSTUNREACH: 'no route to its host',
  ENETUNREACH: 'no route to its network',
  ETIMEDOUT: 'it did not answer in time',
  ECONNRESET: 'it cut the connection',
  DatabaseNotReachable: 'there is no such host, or nothing listens there', // Prisma's word for all of them
  ConnectionClosed: 'it cut the connection',
  SocketTimeout: 'it did not answer in time',
};

/** The driver has no code for it. */
const NO_ANSWER = /^timeout expired$|timeout exceeded when trying to connect|connection timeout|^Query read timeout/i;

interface ErrorFacts {
  code?: string;
  message: string;
  errors?: unknown[];
  cause?: unknown;
  meta?: { driverAdapterError?: unknown };
}

/** An error of any layer in words for the operator: no stack, no statement, no connection string. */
export function describeFailure(error: unknown): string {
  if (!(error instanceof Error)) return 'something unexpected was thrown';
  if (error instanceof Failure || error instanceof KeyRefusal || error instanceof MigrationError) return error.message;
  if (error instanceof SettingError) return error.message;
  const { code, message } = rootOf(error);
  const tls = tlsFailure(message);
  if (tls) return tls;
  const network = NETWORK[code ?? ''];
  if (network) return `the database cannot be reached: ${network}; check DATABASE_URL`;
  if (NO_ANSWER.test(message)) return 'the database cannot be reached: it did not answer in time; check DATABASE_URL';
  if (message.startsWith('Connection terminated'))
    return 'the connection to the database was lost; check DATABASE_URL and the database';
  const firstLine = message.trim().split('\n', 1)[0] ?? '';
  return ADVICE[code ?? ''] ?? `${firstLine}${code === undefined ? '' : ` (${code})`}`;
}

/** Prisma and Node wrap what the driver said; the innermost error is the one that tells something. */
function rootOf({ code, message, meta, errors, cause }: ErrorFacts): { code: string | undefined; message: string } {
  const inner = meta?.driverAdapterError ?? errors?.[0] ?? cause;
  if (inner instanceof Error) return rootOf(inner);
  if (typeof inner === 'object' && inner !== null) {
    const { originalCode, kind, originalMessage, reason } = inner as Record<string, string | undefined>;
    return { code: originalCode ?? kind, message: originalMessage ?? reason ?? message };
  }
  return { code, message };
}
