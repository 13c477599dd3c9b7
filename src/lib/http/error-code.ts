export interface ErrorKind {
  readonly status: number;
  readonly message: string;
  readonly retryAfterSeconds?: number;
}

/** Codes and their status are part of the interface: version 1 changes and removes none. Messages may change. */
export const ERRORS = {
  bad_request: { status: 400, message: 'The request is not well-formed HTTP/1.1.' },
  validation_failed: { status: 400, message: 'The request breaks a rule.' },
  unauthorized: { status: 401, message: 'The API key is missing or invalid.' },
  forbidden: { status: 403, message: 'No API key may do this.' },
  not_found: { status: 404, message: 'There is no pet with this petId.' },
  method_not_allowed: { status: 405, message: 'This path does not take this method.' },
  request_timeout: { status: 408, message: 'The request did not arrive in time.' },
  idempotency_key_reused: {
    status: 409,
    message: 'This Idempotency-Key belongs to another update: nothing was written.',
  },
  precondition_failed: { status: 412, message: 'The stock has changed: If-Match does not hold.' },
  payload_too_large: { status: 413, message: 'The body is too large.' },
  uri_too_long: { status: 414, message: 'The request target is too long.' },
  unsupported_media_type: { status: 415, message: 'The body must be application/json in UTF-8.' },
  too_many_requests: { status: 429, message: 'Too many requests.' },
  header_fields_too_large: { status: 431, message: 'The headers are larger than 8 KiB.' },
  internal_error: { status: 500, message: 'The service failed; its log says why.' },
  service_unavailable: {
    status: 503,
    message: 'The database cannot be used at the moment; nothing was written.',
    retryAfterSeconds: 1,
  },
  outcome_unknown: {
    status: 503,
    message:
      'The update may or may not have happened: repeat it unchanged if it has an Idempotency-Key, otherwise read the stock.',
    retryAfterSeconds: 1,
  },
} as const satisfies Readonly<Record<string, ErrorKind>>;

export type ErrorCode = keyof typeof ERRORS;
