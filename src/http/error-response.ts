import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ApiError } from '../errors/api-error.js';
import { writeHead } from './responses.js';

/** Unread request bodies up to here are taken and dropped, so that the connection can be kept. */
const DROPPED_BODY_BYTES = 1_024;
/** A client that is still sending gets this long, and this much is taken from it, so that it can read the response. */
export const LINGER_MS = 500;
const LINGER_BYTES = 65_536;

/** The headers of every Error, beside those that every response has. */
export function errorHeaders(error: ApiError, body: string): Record<string, string | number> {
  return {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(body),
    'Cache-Control': 'no-store',
    ...error.headers,
  };
}

/** The one place that writes an Error to a response. */
export function sendError(
  request: IncomingMessage & { failure?: unknown },
  response: ServerResponse,
  error: ApiError,
): void {
  request.failure = error;
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const body = error.body();
  const headers = errorHeaders(error, body);
  if (isBodySmall(request)) {
    writeHead(response, error.status, headers).end(body);
    return;
  }
  response.shouldKeepAlive = false;
  writeHead(response, error.status, headers).write(body);
  endAfterLingering(request, response);
}

function isBodySmall(request: IncomingMessage): boolean {
  if (request.complete) return true;
  const { 'content-length': length, 'transfer-encoding': coding, expect } = request.headers;
  // Who expects "100 Continue" may send the body or not after this response; only the end of the connection tells.
  return coding === undefined && expect === undefined && Number(length ?? 0) <= DROPPED_BODY_BYTES;
}

/**
 * The response is complete for the client. Closing at once, with its data unread, would reset the connection
 * and could take the response with it.
 */
function endAfterLingering(request: IncomingMessage, response: ServerResponse): void {
  let taken = 0;
  const end = () => {
    clearTimeout(timer);
    response.end();
  };
  const timer = setTimeout(end, LINGER_MS);
  request
    .on('data', (chunk: Buffer) => {
      taken += chunk.length;
      if (taken > LINGER_BYTES) end();
    })
    .once('end', end)
    .once('close', end)
    .on('error', end);
}
