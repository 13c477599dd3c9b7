import { randomUUID } from 'node:crypto';
import type { NextFunction, RequestHandler, Response } from 'express';
import type { Environment } from '../environment.js';
import { ApiError } from '../errors/api-error.js';
import { answerError } from '../errors/error.answer.js';
import type { ApiRequest } from './api-request.js';
import type { Drain } from './drain.js';

const MAX_HEADERS = 64;
const MAX_TARGET_LENGTH = 2_048;
/** Of the caller's `X-Request-Id`s, those that are taken over. */
export const REQUEST_ID = /^[A-Za-z0-9_-]{1,64}$/;

/** What every answer has. Helmet adds to it where a browser page is served. */
const HEADERS_ON_EVERY_ANSWER = new Map([
  ['X-Content-Type-Options', 'nosniff'],
  ['Content-Security-Policy', "default-src 'none'; frame-ancestors 'none'"],
  ['Referrer-Policy', 'no-referrer'],
]);

/** What happens to every request before it is routed: it gets an id and a deadline, and its head is judged. */
export function frontDoor(environment: Environment, drain: Drain): RequestHandler {
  return (incoming, response: Response, next: NextFunction) => {
    const request = incoming as ApiRequest;
    const given = request.headers['x-request-id'];
    request.id = typeof given === 'string' && REQUEST_ID.test(given) ? given : randomUUID();
    request.arrivedAt = performance.now();
    request.deadline = request.arrivedAt + environment.REQUEST_DEADLINE_MS;

    response.setHeader('X-Request-Id', request.id);
    for (const [name, value] of HEADERS_ON_EVERY_ANSWER) response.setHeader(name, value);
    if (drain.isDraining) response.setHeader('Connection', 'close');

    const fault = judgeHead(request);
    if (fault) {
      answerError(request, response, fault);
      return;
    }
    // A path is compared as it was sent: what Express decodes is then the text itself.
    if (request.url.includes('%')) request.url = request.url.replaceAll('%', '%25');
    next();
  };
}

function judgeHead(request: ApiRequest): ApiError | undefined {
  const { rawHeaders } = request;
  if (rawHeaders.length > 2 * MAX_HEADERS) {
    return new ApiError('header_fields_too_large', `More than ${MAX_HEADERS} headers.`);
  }
  if (request.url.length > MAX_TARGET_LENGTH) {
    return new ApiError('uri_too_long', `The request target is longer than ${MAX_TARGET_LENGTH} characters.`);
  }
  let hosts = 0;
  const authorizationHeaders: string[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? '';
    if (name.length === 4 && name.toLowerCase() === 'host') hosts++;
    else if (name.length === 13 && name.toLowerCase() === 'authorization')
      authorizationHeaders.push(rawHeaders[at + 1] ?? '');
  }
  request.authorizationHeaders = authorizationHeaders;
  // RFC 9112 section 3.2.
  if (hosts > 1 || (hosts === 0 && request.httpVersion !== '1.0')) {
    return new ApiError('bad_request', 'Exactly one Host header is required.');
  }
  return undefined;
}
