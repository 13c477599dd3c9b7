import { ERRORS, type ErrorCode } from './error-code.js';

/** A refusal or failure as the client sees it. Nothing that the client sent, and nothing internal, is in its message. */
export class ApiError extends Error {
  readonly status: number;

  /**
   * @param message what this case says; without one, what the code usually says
   * @param headers what this response carries beside the body, such as `Allow`
   * @param cause for the log alone
   */
  constructor(
    readonly code: ErrorCode,
    message: string = ERRORS[code].message,
    readonly headers: Readonly<Record<string, string>> = {},
    cause?: unknown,
  ) {
    super(message, { cause });
    this.status = ERRORS[code].status;
  }

  /** The Error body (docs/interface.md, section 7). */
  body(): string {
    return JSON.stringify({ code: this.code, message: this.message, status: this.status });
  }
}

/** Seconds after which a client may try again: the time a restarted database usually needs. */
const RETRY_AFTER = { 'Retry-After': '1' };

export function unavailable(message?: string, cause?: unknown): ApiError {
  return new ApiError('service_unavailable', message, RETRY_AFTER, cause);
}

export function outcomeUnknown(cause: unknown): ApiError {
  return new ApiError('outcome_unknown', undefined, RETRY_AFTER, cause);
}
