import { type ErrorKind, HTTP_ERRORS } from '../lib/http/index.ts';

/** Codes and their status are part of the interface: version 1 changes and removes none. Messages may change. */
export const ERRORS = {
  // The request itself: it is not well-formed, too large, too slow, or leads nowhere.
  ...HTTP_ERRORS,
  // The key.
  unauthorized: { status: 401, message: 'The API key is missing or invalid.' },
  forbidden: { status: 403, message: 'No API key may do this.' },
  too_many_requests: { status: 429, message: 'Too many requests.' },
  // The state of the stock.
  not_found: { status: 404, message: 'There is no pet with this petId.' },
  idempotency_key_reused: {
    status: 409,
    message: 'This Idempotency-Key belongs to another update: nothing was written.',
  },
  precondition_failed: {
    status: 412,
    // Right for every If-Match that fails: the state may be the same, and a tag of a list may have a suffix.
    message:
      'If-Match does not hold: none of its tags is the present one. A weak tag (W/) never matches. A proxy that compresses can make a tag weak, or add a suffix.',
  },
  // The service.
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
