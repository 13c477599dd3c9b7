import { applyDecorators } from '@nestjs/common';
import { ApiResponse } from '@nestjs/swagger';
import { ErrorBody } from '../errors/error.dto.js';
import { ERRORS, type ErrorCode, type ErrorStatus } from '../errors/error-code.js';
import { BODY_TOO_LARGE } from '../http/json-body.js';
import { CHALLENGE, type HeaderDocs, REQUEST_ID, RETRY_AFTER } from './headers.js';

/** What each status means to a client of any operation. */
const ANSWERS: Readonly<Record<ErrorStatus, { readonly description: string; readonly headers?: HeaderDocs }>> = {
  400: { description: 'The request is malformed.' },
  401: { description: 'The API key is missing or invalid.', headers: CHALLENGE },
  403: { description: 'The API key is good but lacks the scope of this operation.', headers: CHALLENGE },
  404: { description: 'The requested resource could not be found.' },
  405: { description: 'This path does not take this method.' },
  408: { description: 'The request did not arrive in time. Send it again on a new connection.' },
  409: { description: 'The request contradicts an earlier one.' },
  412: { description: 'The precondition does not hold. Nothing was written.' },
  413: { description: BODY_TOO_LARGE },
  414: { description: 'The request target is too long.' },
  415: { description: 'The body is not `application/json` in UTF-8, or has a `Content-Encoding`.' },
  429: { description: 'Too many requests with this key: wait before the next.', headers: RETRY_AFTER },
  431: { description: 'The header fields are too many or too large.' },
  500: { description: 'The service failed. Its log, under the `X-Request-Id`, says why.' },
  503: { description: 'Try again after `Retry-After`: nothing was written.', headers: RETRY_AFTER },
};

interface Particulars {
  readonly description?: string;
  readonly headers?: HeaderDocs;
  /** Example messages that fit this operation better than the usual ones. */
  readonly messages?: Readonly<Partial<Record<ErrorCode, string>>>;
}

/** Documents the Errors that an operation can answer with, one answer for each status. */
export function FailsWith(...codes: readonly ErrorCode[]): MethodDecorator {
  return applyDecorators(...codes.map((code) => ErrorResponse([code])));
}

/**
 * As {@link FailsWith}, for a status of which an operation has more to say.
 *
 * @param codes of one status; each becomes an example
 */
export function ErrorResponse(
  codes: readonly [ErrorCode, ...ErrorCode[]],
  { description, headers, messages }: Particulars = {},
): MethodDecorator {
  const status = ERRORS[codes[0]].status;
  const usual = ANSWERS[status];
  return ApiResponse({
    status,
    description: description ?? usual.description,
    headers: { ...REQUEST_ID, ...usual.headers, ...headers },
    type: ErrorBody,
    examples: Object.fromEntries(
      codes.map((code) => {
        const message = messages?.[code] ?? ERRORS[code].message;
        return [code, { summary: code, value: { code, message, status } }];
      }),
    ),
  });
}
