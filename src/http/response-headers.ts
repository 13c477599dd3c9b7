import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { inContext } from './api-request.js';

/** What every answer has, beside `X-Request-Id`. Swagger UI has a content security policy of its own. */
export const HEADERS_ON_EVERY_RESPONSE = {
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'Referrer-Policy': 'no-referrer',
} as const;

/** The headers that an answer was given at its head; Node.js itself only tells those that were set one by one before. */
export interface ResponseHead {
  readonly head: OutgoingHttpHeaders | undefined;
}

/**
 * All headers of an answer, to be written in one go: setting them one by one costs three times as much. Where others have
 * set some already, Node.js has to merge them, so the common ones are set too, unless they are there.
 */
export function allHeaders(response: ServerResponse, own: OutgoingHttpHeaders = {}): OutgoingHttpHeaders {
  const { id } = inContext(response.req);
  const common = { 'X-Request-Id': id, ...HEADERS_ON_EVERY_RESPONSE };
  const alreadySet = response.getHeaderNames();
  if (alreadySet.length === 0) return { ...common, ...own };
  for (const [name, value] of Object.entries(common)) {
    if (!response.hasHeader(name)) response.setHeader(name, value);
  }
  const vary = response.getHeader('Vary');
  return vary && own['Vary'] ? { ...own, Vary: `${String(vary)}, ${String(own['Vary'])}` } : own;
}
