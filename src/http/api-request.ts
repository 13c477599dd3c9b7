import { randomUUID } from 'node:crypto';
import type { IncomingMessage, OutgoingHttpHeader } from 'node:http';
import { type ExecutionContext, createParamDecorator } from '@nestjs/common';
import type { Request } from 'express';
import { holdsKey } from '../auth/api-key.format.js';
import type { Snapshot } from '../database/snapshot.js';
import { ApiError } from '../errors/api-error.js';

/** Why a request was not let in. For the log alone: the caller learns no more than whether it has sent a key. */
export const AUTH_FAILURES = ['no_key', 'malformed_header', 'unknown_key', 'expired_key', 'revoked_key'] as const;
export type AuthFailure = (typeof AUTH_FAILURES)[number];

/** A request with its context: what the service knows of it. */
export interface ApiRequest extends Request {
  /** The caller's `X-Request-Id` where it is well formed, otherwise a new one. */
  id: string;
  /** When its turn came on its connection, on the clock of `performance.now()`, like {@link deadline}. */
  arrivedAt: number;
  /**
   * Where it ends among the bytes of its connection, if it offers another protocol (`Upgrade: h2c`): what one read brings
   * behind it is lost to Node.js, so the connection is kept only where nothing has come.
   */
  endsAt: number | undefined;
  /** Until when it may wait for the database; set by the guard, and put off by the time that its body takes to come. */
  deadline: number;
  /** Public id of the presented key, where the database knows it. */
  keyId: string | undefined;
  /** What had been committed when the guard let the request in. */
  snapshot: Snapshot;
  /** What is wrong with the framing or the time of the body; an `error` event tells whoever reads it. */
  bodyFault: ApiError | undefined;
  /** Whether the client waits for `100 Continue` before it sends the body. */
  awaitsContinue: boolean | undefined;
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
    // One that holds a key is not taken over: ids go into the log and the history.
    const isTaken = typeof given === 'string' && REQUEST_ID.test(given) && !holdsKey(given);
    request.id = isTaken ? given : randomUUID();
    request.arrivedAt = performance.now();
  }
  return request;
}

/** A parameter: the field of that name, given in lower case. Unlike Nest's `@Headers` it takes pipes, and documents nothing. */
export const RequestHeader = createParamDecorator(
  (name: string, context: ExecutionContext) => context.switchToHttp().getRequest<ApiRequest>().headers[name],
);

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

const HOST = /^[\w\-.~%!$&'()*+,;=:[\]]*$/;
/** Of `http://host/path`, what is before the path. */
const ORIGIN = /^https?:\/\/[^/?\\]+(?=[/?]|$)/i;
/** All methods of the service. */
const ALLOW = { Allow: 'GET, HEAD, OPTIONS, PATCH' };

const badRequest = (message: string) => new ApiError('bad_request', message);
export const targetTooLong = () =>
  new ApiError('uri_too_long', `The request target is longer than ${MAX_TARGET_LENGTH} characters.`);

/**
 * Validates what Node.js lets pass of a request line and its headers: one well-formed Host (RFC 9112 section 3.2), and no
 * transfer coding that is not understood, nor any in HTTP/1.0 (section 6.1).
 */
export function validateHead(request: ApiRequest): ApiError | undefined {
  const { rawHeaders, httpVersionMajor, httpVersionMinor } = request;
  if (rawHeaders.length > 2 * MAX_HEADERS) {
    return new ApiError('header_fields_too_large', `More than ${MAX_HEADERS} headers.`);
  }
  if (request.url.length > MAX_TARGET_LENGTH) return targetTooLong();
  if (httpVersionMajor !== 1) return badRequest('Only HTTP/1.1 and HTTP/1.0 are spoken here.');

  const hosts = headerValues(request, 'host');
  if (!hosts.every((host) => HOST.test(host))) return badRequest('The Host header is malformed.');
  const coding = request.headers['transfer-encoding'];
  if (coding !== undefined && (coding.toLowerCase() !== 'chunked' || httpVersionMinor === 0)) {
    if (request.res) request.res.shouldKeepAlive = false; // a proxy may see the end of the body elsewhere
    return badRequest('The only transfer coding taken is chunked, in HTTP/1.1.');
  }
  if (hosts.length > 1 || (hosts.length === 0 && httpVersionMinor > 0)) {
    return badRequest('Exactly one Host header is required.');
  }
  return validateTarget(request);
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
    if (origin === undefined) return badRequest('The request target is malformed.');
    url = url.slice(origin.length);
    if (!url.startsWith('/')) url = `/${url}`;
  }
  if (url.includes('#')) return badRequest('The request target is malformed.');
  request.url = url.replaceAll('%', '%25');
  return undefined;
}
