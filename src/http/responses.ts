import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { Response } from 'express';
import type { ApiError } from '../errors/api-error.js';
import { inContext } from './api-request.js';

/** What every response has, beside `X-Request-Id`. The files of Swagger UI have a content security policy of their own. */
export const SECURITY_HEADERS = {
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'Referrer-Policy': 'no-referrer',
} as const;

/** Unread request bodies up to here are taken and dropped, so that the connection can be kept. */
const DROPPED_BODY_BYTES = 1_024;

/** Writes the head of a response in one go: setting its headers one by one costs three times as much. */
export function writeHead(response: ServerResponse, status: number, own: OutgoingHttpHeaders): ServerResponse {
  closeBehindBody(response);
  const request = inContext(response.req);
  request.responseLength = own['Content-Length'];
  const headers: OutgoingHttpHeaders = { 'X-Request-Id': request.id, ...SECURITY_HEADERS, ...own };
  const vary = response.getHeader('Vary'); // of CORS
  if (vary !== undefined && own['Vary'] !== undefined) headers['Vary'] = `${String(vary)}, ${String(own['Vary'])}`;
  return response.writeHead(status, headers);
}

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
export function sendError(response: ServerResponse, error: ApiError): void {
  const request = inContext(response.req);
  request.failure = error;
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const body = error.body();
  writeHead(response, error.status, errorHeaders(error, body)).end(body);
}

/** A body that is not here yet, and that nobody will ask for, is not waited for; nor is what the parser has lost. */
function closeBehindBody(response: ServerResponse): void {
  const request = inContext(response.req);
  if (request.endsAt !== undefined) response.shouldKeepAlive &&= request.socket.bytesRead === request.endsAt;
  if (request.complete) return;
  const { 'content-length': length, 'transfer-encoding': coding, expect } = request.headers;
  // Who expects "100 Continue" may send the body or not after this response; only the end of the connection tells.
  const isSmall = coding === undefined && expect === undefined && Number(length ?? 0) <= DROPPED_BODY_BYTES;
  if (!isSmall) response.shouldKeepAlive = false;
}

/** Makes Express write what handlers return with the headers of every response, and an object as JSON in one go. */
export function replyByWriteHead({ response }: { response: Response }): void {
  const { send } = response;
  response.json = function (body) {
    const text = JSON.stringify(body, exactIntegers);
    const length = Buffer.byteLength(text);
    writeHead(this, this.statusCode, { 'Content-Type': 'application/json; charset=utf-8', 'Content-Length': length });
    return this.end(text, length === text.length ? 'latin1' : 'utf8');
  };
  response.send = function (body) {
    closeBehindBody(this);
    return Reflect.apply(send, this.set({ 'X-Request-Id': inContext(this.req).id, ...SECURITY_HEADERS }), [body]);
  };
}

/** A replacer for `JSON.stringify`: a bigint becomes a number with all its digits. */
export function exactIntegers(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' ? JSON.rawJSON(String(value)) : value;
}

declare global {
  interface JSON {
    /** In Node.js since 21, not yet in TypeScript's library. */
    rawJSON(text: string): unknown;
  }
}
