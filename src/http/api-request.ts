import { randomUUID } from 'node:crypto';
import type { IncomingMessage, OutgoingHttpHeader } from 'node:http';
import { type ExecutionContext, createParamDecorator } from '@nestjs/common';
import type { Request } from 'express';
import { holdsKey } from '../auth/api-key.format.js';
import type { Snapshot } from '../database/snapshot.js';
import { ApiError } from '../errors/api-error.js';

/** Why a request was not let in, for the log alone: the client must not learn it. */
export const AUTH_FAILURES = ['no_key', 'malformed_header', 'unknown_key', 'expired_key', 'revoked_key'] as const;
export type AuthFailure = (typeof AUTH_FAILURES)[number];

export interface ApiRequest extends Request {
  id: string;
  /** When its turn came, on the clock of `performance.now()`, like {@link deadline}. */
  arrivedAt: number;
  /** Of a request with `Upgrade`: its last byte on the connection. Node.js loses what one read brings behind it. */
  endsAt: number | undefined;
  /** Until when it may wait for the database; the time that its body takes to come does not count. */
  deadline: number;
  keyId: string | undefined;
  /** What had been committed when the guard let the request in. */
  snapshot: Snapshot;
  /** Why the body cannot be read: bad framing, or a time-out. */
  bodyFault: ApiError | undefined;
  awaitsContinue: boolean | undefined;
  authFailure: AuthFailure | undefined;
  /** `Content-Length` of the response, for the log. */
  responseLength: OutgoingHttpHeader | undefined;
  failure: ApiError | undefined;
}

export const REQUEST_ID = /^[A-Za-z0-9_-]{1,64}$/;

/** Adds the context to a request; created on first use. */
export function inContext(incoming: IncomingMessage): ApiRequest {
  const request = incoming as ApiRequest;
  if ((request.arrivedAt as number | undefined) === undefined) {
    const given = request.headers['x-request-id'];
    // Ids go into the log and the history, so an id that holds a key is replaced.
    const isTaken = typeof given === 'string' && REQUEST_ID.test(given) && !holdsKey(given);
    request.id = isTaken ? given : randomUUID();
    request.arrivedAt = performance.now();
  }
  return request;
}

/** A header by its name in lower case. Unlike Nest's `@Headers` it takes pipes and adds nothing to the document. */
export const RequestHeader = createParamDecorator(
  (name: string, context: ExecutionContext) => context.switchToHttp().getRequest<ApiRequest>().headers[name],
);

/** All values of a header; `headers` drops or joins duplicates. */
export function headerValues({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>, name: string): string[] {
  const values: string[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const present = rawHeaders[at] ?? '';
    if (present.length === name.length && present.toLowerCase() === name) values.push(rawHeaders[at + 1] ?? '');
  }
  return values;
}

const MAX_HEADERS = 64;
export const MAX_TARGET_LENGTH = 2_048;

export const HTTP_VERSIONS = 'Only HTTP/1.1 and HTTP/1.0 are spoken here.';

const HOST = /^[\w\-.~%!$&'()*+,;=:[\]]*$/;
/** The part of `http://host/path` up to the slash, which may be missing. */
const ORIGIN = /^https?:\/\/[^/?]+(?:\/|(?=\?)|$)/i;
const ALLOW = { Allow: 'GET, HEAD, OPTIONS, PATCH' };

const badRequest = (message: string) => new ApiError('bad_request', message);
export const targetTooLong = () =>
  new ApiError('uri_too_long', `The request target is longer than ${MAX_TARGET_LENGTH} characters.`);

/** Refuses what Node.js lets pass: a missing or malformed Host (RFC 9112 section 3.2), unknown transfer codings (6.1). */
export function validateHead(request: ApiRequest): ApiError | undefined {
  const { rawHeaders, httpVersionMajor, httpVersionMinor } = request;
  if (rawHeaders.length > 2 * MAX_HEADERS) {
    return new ApiError('header_fields_too_large', `More than ${MAX_HEADERS} headers.`);
  }
  if (request.url.length > MAX_TARGET_LENGTH) return targetTooLong();
  if (httpVersionMajor !== 1) return badRequest(HTTP_VERSIONS);

  const hosts = headerValues(request, 'host');
  if (!hosts.every((host) => HOST.test(host))) return badRequest('The Host header is malformed.');
  const coding = request.headers['transfer-encoding'];
  if (coding !== undefined && (coding.toLowerCase() !== 'chunked' || httpVersionMinor === 0)) {
    if (request.res) request.res.shouldKeepAlive = false; // a proxy may see the end of the body elsewhere
    return badRequest('The only transfer coding taken is chunked, in HTTP/1.1.');
  }
  const isHostMissing = hosts.length === 0 && httpVersionMinor > 0;
  if (isHostMissing || hosts.length > 1) return badRequest('Exactly one Host header is required.');
  return validateTarget(request);
}

/** Leaves the path in `request.url`. Express decodes it: encoding each `%` once more keeps the text as it was sent. */
function validateTarget(request: ApiRequest): ApiError | undefined {
  const { method, url } = request;
  if (method === 'CONNECT') return new ApiError('method_not_allowed', 'This service is no proxy.', ALLOW);
  const target = url.replace(ORIGIN, '/');
  const isSound = target.startsWith('/') || (target === '*' && method === 'OPTIONS');
  if (!isSound || target.includes('#')) return badRequest('The request target is malformed.');
  request.url = target.replaceAll('%', '%25');
  return undefined;
}
