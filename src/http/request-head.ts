import { ApiError } from '../errors/api-error.js';
import { type ApiRequest, headerValues } from './api-request.js';

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

/**
 * RFC 9112 section 3.2: one Host, and a well-formed one; section 6.1: no transfer coding that is not understood, and none in
 * HTTP/1.0.
 */
function validateHeaders(request: ApiRequest): ApiError | undefined {
  const hosts = headerValues(request, 'host');
  if (!hosts.every((host) => HOST.test(host))) return new ApiError('bad_request', 'The Host header is malformed.');
  const coding = request.headers['transfer-encoding'];
  if (coding !== undefined && (coding.toLowerCase() !== 'chunked' || request.httpVersionMinor === 0)) {
    if (request.res) request.res.shouldKeepAlive = false; // a proxy may see the end of the body elsewhere
    return new ApiError('bad_request', 'The only transfer coding taken is chunked, in HTTP/1.1.');
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
