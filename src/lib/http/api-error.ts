/*
 * Who may know a status, and who reads which words.
 *
 * Code that refuses a request throws an ApiError: it names a code, and the code has its status. database/ knows no request. It throws
 * what became of a statement (NotApplied, OutcomeUnknown, RefusedValue), and only http/error.filter.ts makes a code of that. Anything
 * else that is thrown is 500, or the 4xx that NestJS gave it, without its words: a case that we forgot tells a stranger nothing.
 *
 * The client reads what to do next, and whether anything was written. It may be an attacker, so its words have no SQL, no path and
 * no address. The operator reads the cause of the same error, in the log or on a terminal: database-failure.ts says what broke and what to
 * check. Keys and passwords are in neither.
 */

// `.ts` and not `.js`: the programs of dev/ run this file from its source, where there is no `.js`.
import { ERRORS, type ErrorCode, type ErrorKind } from './error-code.ts';

type Headers = Readonly<Record<string, string>>;

/** A refusal or failure as the client sees it. */
export class ApiError extends Error {
  readonly code: ErrorCode;
  readonly status: number;
  readonly headers: Headers;

  /** @param cause for the log alone */
  constructor(code: ErrorCode, message: string = ERRORS[code].message, headers: Headers = {}, cause?: unknown) {
    super(message, { cause });
    const { status, retryAfterSeconds }: ErrorKind = ERRORS[code];
    this.code = code;
    this.status = status;
    this.headers = { ...(retryAfterSeconds !== undefined && { 'Retry-After': String(retryAfterSeconds) }), ...headers };
  }

  /** The Error body (docs/interface.md, section 7). */
  body(): string {
    return JSON.stringify({ code: this.code, message: this.message, status: this.status });
  }
}
