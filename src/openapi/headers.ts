import type { ApiResponseOptions } from '@nestjs/swagger';
import { REQUEST_ID as REQUEST_ID_FORM } from '../http/api-request.js';

export type HeaderDocs = NonNullable<ApiResponseOptions['headers']>;

/** Headers that mean the same wherever they come; the document describes each of them once. */
export const COMMON_HEADERS = {
  RequestId: {
    description: 'Names the request in the log: the one that the caller sent, where it has this form, or a new one.',
    required: true,
    schema: { type: 'string', pattern: REQUEST_ID_FORM.source },
    example: '5f0c7a52-9f6e-4a8e-8d4b-0d0f4f6f2b11',
  },
  Challenge: {
    description: 'What is wanted of a key (RFC 6750 section 3); with `error` when one was sent.',
    required: true,
    schema: { type: 'string' },
    example: 'Bearer realm="inventory", error="invalid_token"',
  },
  RetryAfter: {
    description: 'Seconds to wait before the next attempt.',
    required: true,
    schema: { type: 'integer', minimum: 0 },
    example: 1,
  },
} satisfies HeaderDocs;

/** On every answer. */
export const REQUEST_ID = { 'X-Request-Id': reference('RequestId') };
/** On 401 and 403. */
export const CHALLENGE = { 'WWW-Authenticate': reference('Challenge') };
/** On 429 and 503. */
export const RETRY_AFTER = { 'Retry-After': reference('RetryAfter') };

/** A strong entity tag, RFC 9110 section 8.8.3. */
export function entityTag(description: string, example: string): HeaderDocs {
  return { ETag: { description, required: true, schema: { type: 'string', pattern: '^".+"$' }, example } };
}

function reference(name: keyof typeof COMMON_HEADERS) {
  return { $ref: `#/components/headers/${name}` };
}
