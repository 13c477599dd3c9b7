import { randomUUID } from 'node:crypto';
import type { IncomingMessage, OutgoingHttpHeader } from 'node:http';
import type { Request } from 'express';
import type { Snapshot } from '../database/snapshot.js';
import { ApiError } from '../errors/api-error.js';

/** Why a request was not let in. For the log alone: to the caller all of them look the same. */
export const AUTH_FAILURES = ['no_key', 'malformed_header', 'unknown_key', 'expired_key', 'revoked_key'] as const;
export type AuthFailure = (typeof AUTH_FAILURES)[number];

/** What every API key begins with. A text that holds it is never written down. */
export const KEY_PREFIX = 'psk_';

/** A request with its context: what the service knows of it. */
export interface ApiRequest extends Request {
  /** The caller's `X-Request-Id` where it is well formed, otherwise a new one. */
  id: string;
  /** When its turn came on its connection, on the clock of `performance.now()`, like {@link deadline}. */
  arrivedAt: number;
  /** Until when the request may wait for the database; set by the guard. */
  deadline: number;
  /** Public id of the presented key, where the database knows it. */
  keyId: string | undefined;
  /** What had been committed when the request was let in; set by the guard. */
  snapshot: Snapshot;
  /** What is wrong with the framing or the time of the body; an `error` event tells whoever reads it. */
  bodyFault: ApiError | undefined;
  /** Whether the client waits for `100 Continue` before it sends the body. */
  awaitsContinue: boolean | undefined;
  /** Why the request was not let in. */
  authFailure: AuthFailure | undefined;
  /** `Content-Length` of the response, for the log. */
  responseLength: OutgoingHttpHeader | undefined;
  /** What the request failed with, for the log. */
  failure: unknown;
}

/** Of the caller's `X-Request-Id`s, those that are taken over. */
export const REQUEST_ID = /^[A-Za-z0-9_-]{1,64}$/;

/** The request with its context. Whoever asks first makes it, and needs nothing but the request. */
export function inContext(incoming: IncomingMessage): ApiRequest {
  const request = incoming as ApiRequest;
  if ((request.arrivedAt as number | undefined) === undefined) {
    const given = request.headers['x-request-id'];
    request.id = isRequestId(given) ? given : randomUUID();
    request.arrivedAt = performance.now();
  }
  return request;
}

/** One that holds a key is not taken over: ids go into the log and the history. */
function isRequestId(given: string | string[] | undefined): given is string {
  return typeof given === 'string' && REQUEST_ID.test(given) && !given.includes(KEY_PREFIX);
}

/** All values of a header as they were sent; of most headers `headers` has the first one or all joined. */
export function headerValues({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>, name: string): string[] {
  const values: string[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const present = rawHeaders[at] ?? '';
    if (present.length === name.length && present.toLowerCase() === name) values.push(rawHeaders[at + 1] ?? '');
  }
  return values;
}

const MAX_HEADERS = 64;
/** In characters. */
export const MAX_TARGET_LENGTH = 2_048;

/** Of `http://host/path`, what is before the path. */
const ORIGIN = /^https?:\/\/[^/?\\]+(?=[/?]|$)/i;
/** All methods of the service. */
const ALLOW = { Allow: 'GET, HEAD, OPTIONS, PATCH' };
const HOST = /^[\w\-.~%!$&'()*+,;=:[\]]*$/;

/**
 * Validates what Node.js lets pass of a request line and its headers.
 *
 * @returns `header_fields_too_large`, `uri_too_long`, `bad_request`, or `method_not_allowed` for `CONNECT`, whose target is
 * no path; undefined when all is well
 */
export function validateHead(request: ApiRequest): ApiError | undefined {
  const { rawHeaders } = request;
  if (rawHeaders.length > 2 * MAX_HEADERS) {
    return new ApiError('header_fields_too_large', `More than ${MAX_HEADERS} headers.`);
  }
  if (request.url.length > MAX_TARGET_LENGTH) return targetTooLong();
  if (request.httpVersionMajor !== 1) return new ApiError('bad_request', 'Only HTTP/1.1 and HTTP/1.0 are spoken here.');
  return validateHeaders(request) ?? validateTarget(request);
}

export function targetTooLong(): ApiError {
  return new ApiError('uri_too_long', `The request target is longer than ${MAX_TARGET_LENGTH} characters.`);
}

/** RFC 9112 section 3.2: one Host, and a well-formed one; section 6.1: no transfer coding that is not understood. */
function validateHeaders(request: ApiRequest): ApiError | undefined {
  const hosts = headerValues(request, 'host');
  if (!hosts.every((host) => HOST.test(host))) return new ApiError('bad_request', 'The Host header is malformed.');
  const coding = request.headers['transfer-encoding'];
  if (coding !== undefined && coding.toLowerCase() !== 'chunked') {
    return new ApiError('bad_request', 'The only transfer coding taken is chunked.');
  }
  return hosts.length === 1 || (hosts.length === 0 && request.httpVersionMinor === 0)
    ? undefined
    : new ApiError('bad_request', 'Exactly one Host header is required.');
}

/**
 * Leaves the path of the target in `request.url`, to be compared as it was sent: with each `%` encoded once more, what
 * Express decodes is the text itself. `*` stands for the service as a whole (RFC 9112 section 3.2.4).
 */
function validateTarget(request: ApiRequest): ApiError | undefined {
  let { url } = request;
  if (request.method === 'CONNECT') return new ApiError('method_not_allowed', 'This service is no proxy.', ALLOW);
  if (!url.startsWith('/') && !(url === '*' && request.method === 'OPTIONS')) {
    const [origin] = ORIGIN.exec(url) ?? [];
    if (origin === undefined) return malformedTarget();
    url = url.slice(origin.length);
    if (!url.startsWith('/')) url = `/${url}`;
    request.url = url;
  }
  if (url.includes('#')) return malformedTarget();
  if (url.includes('%')) request.url = url.replaceAll('%', '%25');
  return undefined;
}

function malformedTarget(): ApiError {
  return new ApiError('bad_request', 'The request target is malformed.');
}
