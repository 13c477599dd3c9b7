import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { inContext } from './api-request.js';

/** What every response has, beside `X-Request-Id`. Swagger UI has a content security policy of its own. */
export const SECURITY_HEADERS = {
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'Referrer-Policy': 'no-referrer',
} as const;

function commonHeaders(request: IncomingMessage): OutgoingHttpHeaders {
  return { 'X-Request-Id': inContext(request).id, ...SECURITY_HEADERS };
}

/** A middleware that sets the headers of every response, for those that others write. */
export function setCommonHeaders(request: IncomingMessage, response: ServerResponse, next?: () => void): void {
  for (const [name, value] of Object.entries(commonHeaders(request))) response.setHeader(name, value ?? '');
  next?.();
}

/** Writes the head of a response in one go: setting its headers one by one costs three times as much. */
export function writeHead(response: ServerResponse, status: number, own: OutgoingHttpHeaders): ServerResponse {
  const headers = { ...commonHeaders(response.req), ...own };
  const vary = response.getHeader('Vary'); // of CORS
  if (vary !== undefined && own['Vary'] !== undefined) headers['Vary'] = `${String(vary)}, ${String(own['Vary'])}`;
  inContext(response.req).responseLength = own['Content-Length'];
  return response.writeHead(status, headers);
}
