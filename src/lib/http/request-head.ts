import { type HttpError, httpError } from './http-error.ts';
import { methodsAt } from './methods.ts';
import type { ApiRequest } from './request-context.ts';
import { headerValues } from './request-headers.ts';

const MAX_HEADERS = 100;
export const MAX_TARGET_LENGTH = 2_048;

export const HTTP_VERSIONS = 'Only HTTP/1.1 and HTTP/1.0 are spoken here.';

const HOST = /^[\w\-.~%!$&'()*+,;=:[\]]*$/;
/** The part of `http://host/path` up to the slash, which may be missing. */
const ORIGIN = /^https?:\/\/[^/?]+(?:\/|(?=\?)|$)/i;

export const TARGET_MALFORMED = 'The request target is malformed.';

const badRequest = (message: string) => httpError('bad_request', message);
export const targetTooLong = () =>
  httpError('uri_too_long', `The request target is longer than ${MAX_TARGET_LENGTH} characters.`);

/**
 * Refuses what Node.js lets pass: a missing or malformed Host (RFC 9112 section 3.2), unknown transfer codings (6.1).
 */
export function validateHead(request: ApiRequest): HttpError | undefined {
  const { rawHeaders, httpVersionMajor, httpVersionMinor } = request;
  if (rawHeaders.length > 2 * MAX_HEADERS) {
    return httpError('header_fields_too_large', `More than ${MAX_HEADERS} headers.`);
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

/**
 * Leaves path and query in `request.url`. Express decodes both once: encoding each `%` once more keeps the text as it
 * was sent.
 */
function validateTarget(request: ApiRequest): HttpError | undefined {
  const { method, url } = request;
  if (method === 'CONNECT') {
    const allow = { Allow: methodsAt(request.app, '*').join(', ') };
    return httpError('method_not_allowed', 'This service is no proxy.', allow);
  }
  const target = url.replace(ORIGIN, '/');
  const isSound = target.startsWith('/') || (target === '*' && method === 'OPTIONS');
  if (!isSound || target.includes('#')) return badRequest(TARGET_MALFORMED);
  request.url = target.replaceAll('%', '%25');
  return undefined;
}
