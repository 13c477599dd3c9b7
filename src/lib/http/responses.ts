import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { HttpError } from './http-error.ts';
import { exactIntegers } from './json.ts';
import { contextOf } from './request-context.ts';

/** Headers of every response. */
export const SECURITY_HEADERS = {
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'Referrer-Policy': 'no-referrer',
} as const;

/** The service reads and drops an unread body up to this size, and keeps the connection. */
const DROPPED_BODY_BYTES = 1_024;

/** Writes the head in one call: setting headers one by one costs three times as much. */
export function writeHead(
  response: ServerResponse,
  status: number,
  own: OutgoingHttpHeaders,
  failure?: HttpError,
): ServerResponse {
  closeBehindBody(response);
  const request = contextOf(response.req);
  request.sent = { length: own['Content-Length'], failure };
  const headers: OutgoingHttpHeaders = { 'X-Request-Id': request.id, ...SECURITY_HEADERS, ...own };
  const vary = response.getHeader('Vary'); // of CORS
  if (vary !== undefined && own['Vary'] !== undefined) headers['Vary'] = `${String(vary)}, ${String(own['Vary'])}`;
  return response.writeHead(status, headers);
}

/** Adds what {@link writeHead} writes to a response whose head Express writes. */
export function addCommonHeaders(response: ServerResponse): void {
  closeBehindBody(response);
  const headers = { 'X-Request-Id': contextOf(response.req).id, ...SECURITY_HEADERS };
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
}

export function sendJson(response: ServerResponse, status: number, value: unknown): void {
  const text = JSON.stringify(value, exactIntegers);
  const length = Buffer.byteLength(text);
  writeHead(response, status, { 'Content-Type': 'application/json; charset=utf-8', 'Content-Length': length });
  response.end(text, length === text.length ? 'latin1' : 'utf8');
}

export function errorHeaders(error: HttpError, body: string): Record<string, string | number> {
  return {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(body),
    'Cache-Control': 'no-store',
    ...error.headers,
  };
}

export function sendError(response: ServerResponse, error: HttpError): void {
  const body = error.body();
  if (!response.headersSent) {
    writeHead(response, error.status, errorHeaders(error, body), error).end(body);
    return;
  }
  const request = contextOf(response.req);
  request.sent = { length: request.sent?.length, failure: error };
  response.destroy();
}

/** Closes the connection after this response if a large body may follow, or bytes that Node.js has lost. */
function closeBehindBody(response: ServerResponse): void {
  const request = contextOf(response.req);
  const endsAt = request.received?.endsAt;
  if (endsAt !== undefined) response.shouldKeepAlive &&= request.socket.bytesRead === endsAt;
  if (request.complete) return;
  const { 'content-length': length, 'transfer-encoding': coding } = request.headers;
  if (coding !== undefined || Number(length ?? 0) > DROPPED_BODY_BYTES) response.shouldKeepAlive = false;
}
