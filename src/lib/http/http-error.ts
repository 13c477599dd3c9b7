/** A code of an Error body, with its status and its words. */
export interface ErrorKind {
  readonly status: number;
  readonly message: string;
  readonly retryAfterSeconds?: number;
}

/** The codes by which this library refuses a request. A service adds its own. */
export const HTTP_ERRORS = {
  bad_request: { status: 400, message: 'The request is not well-formed HTTP/1.1.' },
  validation_failed: { status: 400, message: 'The request breaks a rule.' },
  not_found: { status: 404, message: 'There is nothing at this path.' },
  method_not_allowed: { status: 405, message: 'This path does not take this method.' },
  request_timeout: { status: 408, message: 'The request did not arrive in time.' },
  payload_too_large: { status: 413, message: 'The body is too large.' },
  uri_too_long: { status: 414, message: 'The request target is too long.' },
  unsupported_media_type: { status: 415, message: 'The body must be application/json in UTF-8.' },
  header_fields_too_large: { status: 431, message: 'The headers are larger than 16 KiB.' },
} as const satisfies Readonly<Record<string, ErrorKind>>;

type Headers = Readonly<Record<string, string>>;

/** A refusal or failure as the client sees it. */
export class HttpError extends Error {
  readonly code: string;
  readonly status: number;
  readonly headers: Headers;

  /** @param cause for the log alone */
  constructor(code: string, kind: ErrorKind, message = kind.message, headers: Headers = {}, cause?: unknown) {
    super(message, { cause });
    const { status, retryAfterSeconds } = kind;
    this.code = code;
    this.status = status;
    this.headers = { ...(retryAfterSeconds !== undefined && { 'Retry-After': String(retryAfterSeconds) }), ...headers };
  }

  /** The Error body: `{"code": …, "message": …, "status": …}`. */
  body(): string {
    return JSON.stringify({ code: this.code, message: this.message, status: this.status });
  }
}

/** An Error with a code of this library. */
export function httpError(code: keyof typeof HTTP_ERRORS, message?: string, headers?: Headers): HttpError {
  return new HttpError(code, HTTP_ERRORS[code], message, headers);
}
