// `.ts` and not `.js`: the programs of dev/ run this file from its source, where there is no `.js`.
import { ERRORS, type ErrorCode, type ErrorKind } from './error-code.ts';

type Headers = Readonly<Record<string, string>>;

/** A refusal or failure as the client sees it. Nothing that the client sent, and nothing internal, is in its message. */
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
