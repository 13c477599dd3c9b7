/*
 * Who may know a status, and who reads which words.
 *
 * Code that refuses a request throws an ApiError: it names a code, and the code has its status. lib/postgres knows no
 * request. It throws what became of a statement (NotApplied, OutcomeUnknown, RefusedValue), and only error.filter.ts
 * makes a code of that. Anything else that is thrown is 500, or the 4xx that NestJS gave it, without its words: a case
 * that we forgot shows nothing to a stranger.
 *
 * The client reads what to do next, and whether anything was written. It may be an attacker, so its words have no SQL,
 * no path and no address. The operator reads the cause of the same error, in the log or on a terminal:
 * src/database-errors.ts and lib/postgres/database-failure.ts say what broke and what to check. Keys and passwords are
 * in neither.
 */

import { HttpError } from '../lib/http/index.ts';
import { ERRORS, type ErrorCode } from './error-code.ts';

/** A refusal or failure with a code of this service. */
export class ApiError extends HttpError {
  declare readonly code: ErrorCode;

  /** @param cause for the log alone */
  constructor(code: ErrorCode, message?: string, headers?: Readonly<Record<string, string>>, cause?: unknown) {
    super(code, ERRORS[code], message, headers, cause);
  }
}
