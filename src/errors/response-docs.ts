import { applyDecorators } from '@nestjs/common';
import { ApiResponse, type ApiResponseOptions } from '@nestjs/swagger';
import { ErrorBody } from './error.dto.ts';
import { ERRORS, type ErrorCode } from './error-code.ts';
import type { ErrorKind } from '../lib/http/index.ts';
import { SAFE_NAME } from '../safe-text.ts';

type HeaderDocs = NonNullable<ApiResponseOptions['headers']>;

export const COMMON_HEADERS = {
  RequestId: {
    description: "Names the request in the log. It is the caller's if that has this form, otherwise a new one.",
    required: true,
    schema: { type: 'string', pattern: SAFE_NAME.source },
    example: '5f0c7a52-9f6e-4a8e-8d4b-0d0f4f6f2b11',
  },
  Challenge: {
    description: 'The scheme of the key (RFC 6750 section 3). It has an `error` if the request had a key.',
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

const reference = (name: keyof typeof COMMON_HEADERS) => ({ $ref: `#/components/headers/${name}` });

export const REQUEST_ID = { 'X-Request-Id': reference('RequestId') };

function errorHeaders({ status, retryAfterSeconds }: ErrorKind): HeaderDocs {
  return {
    ...REQUEST_ID,
    ...((status === 401 || status === 403) && { 'WWW-Authenticate': reference('Challenge') }),
    // The rate limit counts the seconds of a 429 itself.
    ...((status === 429 || retryAfterSeconds !== undefined) && { 'Retry-After': reference('RetryAfter') }),
  };
}

/** A strong entity tag, RFC 9110 section 8.8.3. */
export function entityTag(description: string, example: string): HeaderDocs {
  return { ETag: { description, required: true, schema: { type: 'string', pattern: '^".+"$' }, example } };
}

interface ErrorDocs {
  readonly message?: string;
  /** Describes the status. Default: the message. */
  readonly description?: string;
  readonly headers?: HeaderDocs;
}

/** Documents the Errors of an operation: a response for each status, with an example for each code. */
export function FailsWith(errors: Readonly<Partial<Record<ErrorCode, ErrorDocs>>>): MethodDecorator {
  const responses = new Map<number, ApiResponseOptions & { readonly examples: Record<string, object> }>();
  for (const [code, { description, headers, ...docs }] of Object.entries(errors) as [ErrorCode, ErrorDocs][]) {
    const { status, message } = { ...ERRORS[code], ...docs };
    const response = responses.get(status) ?? {
      status,
      description: description ?? message,
      headers: { ...errorHeaders(ERRORS[code]), ...headers },
      type: ErrorBody,
      examples: {},
    };
    response.examples[code] = { summary: code, value: { code, message, status } };
    responses.set(status, response);
  }
  return applyDecorators(...[...responses.values()].map((response) => ApiResponse(response)));
}
