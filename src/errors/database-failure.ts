import pg from 'pg';
import { NotApplied } from '../database/not-applied.js';
import { DeadlinePassed, TooManyWaiting } from '../database/round-trip.js';
import { UnconfirmedCommit } from '../database/session.js';
import { type ApiError, outcomeUnknown, unavailable } from './api-error.js';

/**
 * What a failed statement means:
 * `not_applied`, surely without effect; `unknown`, it may have committed; `ours`, a fault of this program.
 */
export type Outcome = 'not_applied' | 'unknown' | 'ours';

/** SQLSTATEs and classes (two characters) after which PostgreSQL has surely not committed. The longest match wins. */
const OUTCOME_OF_SQLSTATE: Readonly<Record<string, Outcome>> = {
  '08': 'unknown', // connection exceptions
  '08001': 'not_applied', // could not connect
  '08004': 'not_applied', // connection rejected
  '0A000': 'not_applied', // "cached plan must not change result type": a migration ran, the next connection plans anew
  '25006': 'not_applied', // read-only: a standby, or a primary that was demoted
  '26000': 'not_applied', // a pooler's server lost the prepared statement
  '28': 'not_applied', // not let in
  '3D000': 'not_applied', // the database is not there (yet)
  '40': 'not_applied', // serialization failure, deadlock
  '40003': 'unknown', // statement completion unknown
  '42P01': 'not_applied', // the tables are not there (yet)
  '42P05': 'not_applied', // a pooler's server already has the prepared statement
  '53': 'not_applied', // out of disk, memory or connections
  '55P03': 'not_applied', // lock not available
  '57014': 'not_applied', // statement timeout
  '57P01': 'unknown', // terminated by an administrator
  '57P02': 'unknown', // crash shutdown
  '57P03': 'not_applied', // starting up
  '57P05': 'unknown', // idle session timeout
  '58': 'not_applied', // I/O error
  XX: 'unknown', // internal error
};

/** What the driver says in plain words, without a code. */
const NOT_APPLIED_MESSAGE =
  /^(timeout exceeded when trying to connect|Connection terminated due to connection timeout|Cannot use a pool after calling end on the pool|The server does not support SSL connections|There was an error establishing an SSL connection)/;

const NOT_CONNECTED = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EMFILE',
  'ENFILE',
]);

/** What a TLS handshake fails with: nothing was sent yet. */
const TLS_FAILED = /^(ERR_TLS_|ERR_SSL_|CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|HOSTNAME_MISMATCH)/;

/** Kinds by which Prisma's driver adapter replaces the driver's own error. */
const OUTCOME_OF_KIND: Readonly<Record<string, Outcome>> = {
  DatabaseNotReachable: 'not_applied',
  TlsConnectionError: 'not_applied',
  ConnectionClosed: 'unknown',
  SocketTimeout: 'unknown',
};

/** Reads a database error of any layer: the round trip, Prisma's adapter, the driver, the socket. */
export function outcomeOf(error: unknown): Outcome {
  if (error instanceof NotApplied) return 'not_applied';
  if (error instanceof DeadlinePassed) return error.sent ? 'unknown' : 'not_applied';
  if (error instanceof UnconfirmedCommit) return 'unknown';
  if (!(error instanceof Error)) return 'ours';

  const { cause, code } = error as { cause?: { originalCode?: string; kind?: string }; code?: unknown };
  const sqlstate = error instanceof pg.DatabaseError ? error.code : cause?.originalCode;
  if (sqlstate !== undefined) {
    return OUTCOME_OF_SQLSTATE[sqlstate] ?? OUTCOME_OF_SQLSTATE[sqlstate.slice(0, 2)] ?? 'ours';
  }
  const ofKind = OUTCOME_OF_KIND[cause?.kind ?? ''];
  if (ofKind !== undefined) return ofKind;
  if (typeof code === 'string') return NOT_CONNECTED.has(code) || TLS_FAILED.test(code) ? 'not_applied' : 'unknown';
  if (NOT_APPLIED_MESSAGE.test(error.message)) return 'not_applied';
  // "Connection terminated unexpectedly", "Query read timeout" and whatever a later driver may say.
  return error.constructor === Error ? 'unknown' : 'ours';
}

/** The answer when reading failed: reading has no outcome to be unsure of. */
export function readFailure(error: unknown): unknown {
  return outcomeOf(error) === 'ours' ? error : unavailable(messageOf(error), error);
}

/** The answer when writing failed. */
export function writeFailure(error: unknown): unknown {
  switch (outcomeOf(error)) {
    case 'not_applied':
      return unavailable(messageOf(error), error);
    case 'unknown':
      return outcomeUnknown(error) satisfies ApiError;
    case 'ours':
      return error;
  }
}

/** Overload is the one failure worth telling apart: trying again at once makes it worse. */
export function isOverload(error: unknown): boolean {
  return error instanceof TooManyWaiting;
}

function messageOf(error: unknown): string | undefined {
  return isOverload(error) ? 'The service is handling as many requests as it can; nothing was written.' : undefined;
}
