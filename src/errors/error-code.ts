/** Every `code` with its status. Part of the interface: none is renamed, removed or given another status within version 1. */
export const STATUS_OF = {
  bad_request: 400,
  validation_failed: 400,
  unauthorized: 401,
  forbidden: 403,
  not_found: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  precondition_failed: 412,
  payload_too_large: 413,
  uri_too_long: 414,
  unsupported_media_type: 415,
  too_many_requests: 429,
  header_fields_too_large: 431,
  internal_error: 500,
  /** Nothing was written. */
  service_unavailable: 503,
  /** The write may or may not have happened. */
  outcome_unknown: 503,
} as const;

export type ErrorCode = keyof typeof STATUS_OF;
