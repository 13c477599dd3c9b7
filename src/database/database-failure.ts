import pg from 'pg';
import { Prisma } from '../generated/prisma/client.js';
import { NOT_AS_ASKED, codeAndWords, describeFailure, ownConflict } from '../errors/error-text.js';
import { DeadlinePassed } from './deadline.js';

/** A failure that surely left no trace in the database. */
export class NotApplied extends Error {}

/** More calls wait than the service is willing to keep; trying again at once makes it worse. */
export class TooManyWaiting extends NotApplied {
  override message = 'too many calls wait for the database';
}

/** A failover may still lose the commit. */
export class UnconfirmedCommit extends Error {
  override message = 'the commit is not confirmed by the synchronous standby';
}

/** A rule or a trigger that somebody added to the database refuses the value, or changes it. Nothing was written. */
export class RefusedValue extends Error {}

/** A write that may or may not have taken place. */
export class OutcomeUnknown extends Error {}

export type Outcome = 'not_applied' | 'unknown' | 'program_fault';

/**
 * By class of SQLSTATE (its first two characters), or by code where that differs from its class. An error that ends the
 * transaction is `not_applied` if another attempt may help, else `program_fault`. One that can follow the commit is `unknown`.
 */
const OUTCOME_OF_SQLSTATE: Readonly<Record<string, Outcome>> = {
  // The statement is wrong, or its data, or what somebody added to the tables.
  ...each('program_fault', '00 01 02 03 09 0B 0F 0L 0P 0Z 10 20 21 22 23 24 25 27 2B 2D 2F 34 38 39 3B 42 44 54 P0'),
  // A standby or a primary that was demoted; sessions ended while they waited for their client, or before their commit.
  ...each('not_applied', '25006 25P03 25P04'),
  // A migration or a pooler took away what this session had planned; the next one plans anew.
  ...each('not_applied', '0A 26 42P05'),
  // Not let in; the database, the schema, the tables or their functions are not there (yet).
  ...each('not_applied', '28 3D 3F 42P01 42883'),
  // Serialization failure, deadlock; no disk, memory or connection left; a lock that is held, an object in use.
  ...each('not_applied', '40 53 55'),
  '40003': 'unknown', // statement completion unknown
  // Lost connections, shutdowns: before the commit or after it.
  ...each('unknown', '08 57'),
  ...each('not_applied', '08001 08004'), // could not connect, connection rejected
  // Statement timeout; starting up; the database was dropped, or the session idle, before the statement was read.
  ...each('not_applied', '57014 57P03 57P04 57P05'),
  // I/O errors, which poolers also use for theirs; configuration; another server's part of a commit; internal errors.
  ...each('unknown', '58 F0 HV XX'),
};

function each(outcome: Outcome, sqlstates: string): Record<string, Outcome> {
  return Object.fromEntries(sqlstates.split(' ').map((sqlstate) => [sqlstate, outcome]));
}

export function outcomeOfSqlstate(sqlstate: string): Outcome {
  return OUTCOME_OF_SQLSTATE[sqlstate] ?? OUTCOME_OF_SQLSTATE[sqlstate.slice(0, 2)] ?? 'unknown';
}

/** Reads a database error of any layer: the round trip, the session, the driver, Prisma. */
export function outcomeOf(error: unknown): Outcome {
  if (error instanceof NotApplied) return 'not_applied';
  if (error instanceof DeadlinePassed) return error.sent ? 'unknown' : 'not_applied';
  if (isProgramFault(error) || error instanceof RefusedValue || error instanceof Prisma.PrismaClientValidationError)
    return 'program_fault';
  const sqlstate = sqlstateOf(error);
  if (isRewriteRule(error as Error)) return 'not_applied';
  if (sqlstate === UNIQUE_VIOLATION && isPassing(error as Error)) return 'not_applied';
  return sqlstate === undefined ? 'unknown' : outcomeOfSqlstate(sqlstate);
}

const UNIQUE_VIOLATION = '23505';

/**
 * Whether another attempt may meet no conflict. The ids of the history may lag behind replicated rows: each attempt takes the
 * next one, and "inventory migrate" mends them. Or another process has just stored the same key. A conflict of pets stays: the
 * service adds none, so a trigger brought two to one id.
 */
function isPassing(conflict: Error): boolean {
  const index = ownConflict(conflict);
  return index !== undefined && index !== PET_INDEX;
}
const PET_INDEX = 'inventory_item_pkey';

/**
 * Whether PostgreSQL refuses to plan the statement because of a rule (CREATE RULE) on its tables. Its words then name SQL's own,
 * in any language: "cannot perform UPDATE RETURNING on relation …". An old plan (0A000, too) has none, and another attempt helps.
 */
function isRewriteRule(error: Error): boolean {
  return /^(0A000 .*[A-Z]{4}|42P17 |XX000 could not find replacement targetlist entry)/.test(codeAndWords(error));
}

/** JavaScript's own errors come from a mistake in a program, which no other attempt mends. */
export function isProgramFault(error: unknown): boolean {
  const mistakes = [TypeError, RangeError, ReferenceError, SyntaxError];
  return !(error instanceof Error) || mistakes.some((kind) => error instanceof kind);
}

/** Prisma keeps what its adapter made of the driver's error in `meta`, and the adapter keeps the code. */
export function sqlstateOf(error: unknown): string | undefined {
  if (error instanceof pg.DatabaseError) return error.code;
  const { cause, meta } = error as {
    cause?: { originalCode?: string };
    meta?: { driverAdapterError?: { cause?: { originalCode?: string } } };
  };
  return (meta?.driverAdapterError?.cause ?? cause)?.originalCode;
}

/** Whether another attempt at a write may help, and does no harm. */
export function mayWriteAgain(error: unknown): boolean {
  return outcomeOf(error) === 'not_applied' && !(error instanceof TooManyWaiting || isRewriteRule(error as Error));
}

/** Whether what only reads may be tried again. */
export function mayReadAgain(error: unknown): boolean {
  return outcomeOf(error) !== 'program_fault' && !(error instanceof TooManyWaiting);
}

/**
 * Whether the value was refused: as wrong data, or by a constraint, a trigger, a view's check option or a function. Nothing was
 * written.
 */
export function isRefusedValue(error: unknown): boolean {
  return /^(22|23|27|44|P0)/.test(sqlstateOf(error) ?? '') && outcomeOf(error) === 'program_fault';
}

/** @returns RefusedValue, NotApplied or OutcomeUnknown in the operator's words; a fault of this program as it is */
export function writeFailure(error: unknown): unknown {
  if (isRefusedValue(error)) {
    const words = ownConflict(error as Error) === PET_INDEX ? NOT_AS_ASKED : describeFailure(error);
    return new RefusedValue(words, { cause: error });
  }
  if (outcomeOf(error) !== 'unknown') return readFailure(error);
  return new OutcomeUnknown(describeFailure(error), { cause: error });
}

/** The same for reading, whose outcome is never unknown. */
export function readFailure(error: unknown): unknown {
  const isTold = error instanceof NotApplied && error.cause === undefined;
  if (isTold || outcomeOf(error) === 'program_fault') return error;
  return new NotApplied(describeFailure(error), { cause: error });
}
