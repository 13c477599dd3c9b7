import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { ApiRequest } from './request-context.ts';

/** A client that is still sending has this long to read the response. */
const LINGER_MS = 500;

/** A client's connection. */
export interface Connection extends Socket {
  /** The request that came last, until its body has come and its response has gone. */
  lastRequest?: ApiRequest | undefined;
  /** Until when it keeps its place among the open connections, on the clock of `performance.now()`. */
  isAuthorizedUntil?: number;
  parser?: { onIncoming: () => number; getCurrentBuffer(): Buffer | undefined } | null;
}

type Serve = (request: IncomingMessage, response: ServerResponse) => void;

/**
 * Serves one request of a connection at a time, so that a read shows the write before it (RFC 9112 section 9.3.2). A
 * request that comes before the handler of the previous one has ended its response is not served, and the connection
 * closes.
 */
export function oneAtATime(serve: Serve, responded: (request: ApiRequest) => void): Serve {
  function ended(this: ServerResponse) {
    const request = this.req as ApiRequest;
    const socket: Connection = request.socket;
    responded(request);
    // An idle connection keeps no request in memory; a body may still come behind its response.
    if (socket.lastRequest === request && request.complete) socket.lastRequest = undefined;
  }
  return (request, response) => {
    const socket: Connection = request.socket;
    const previous = socket.lastRequest?.res;
    if (previous && !previous.writableEnded) {
      closeBehind(previous);
      takeNoMore(socket);
      request.resume(); // an unread body would stop the connection
      return;
    }
    const own = Object.assign(request, { res: response }) as ApiRequest;
    socket.lastRequest = own;
    if (request.headers.upgrade !== undefined) own.received = { ...own.received, endsAt: endOf(request) };
    response.on('close', ended);
    if (response.socket) serve(request, response);
    // Behind the bytes of the previous one.
    else response.once('socket', () => process.nextTick(serve, request, response));
  };
}

/** Closes the connection behind this response, which says so if its head is not written yet. */
export function closeBehind(response: ServerResponse): void {
  response.shouldKeepAlive = false;
  if (response.headersSent) afterResponse(response, () => response.req.socket.destroySoon());
}

/** Acts before Node.js closes a connection that the client has half closed. */
export function afterResponse(response: ServerResponse, act: () => void): void {
  if (response.writableFinished) act();
  else response.prependOnceListener('finish', act);
}

/** Replaces `destroySoon`: closing with unread data can destroy the last response (RFC 9112 section 9.6). */
export function closeGently(this: Connection): void {
  takeNoMore(this);
  this.end();
  this.resume();
  const timer = setTimeout(() => this.destroy(), LINGER_MS);
  this.once('close', () => clearTimeout(timer));
}

/** Node.js would keep each further request in memory until the connection has closed. */
function takeNoMore({ parser }: Connection): void {
  if (parser) parser.onIncoming = () => 2; // its code for "another protocol follows"
}

/**
 * Where a request with `Upgrade` ends, in bytes of its connection, or where its head ends, if chunks follow. NaN: the
 * head came in pieces.
 */
function endOf({ socket, headers }: IncomingMessage): number {
  const read = (socket as Connection).parser?.getCurrentBuffer() ?? Buffer.alloc(0);
  const bodyAt = read.indexOf('\r\n\r\n') + 4;
  if (bodyAt < 4 || /^\s/.test(read.toString('latin1', 0, 1))) return NaN;
  return socket.bytesRead - (read.length - bodyAt) + Number(headers['content-length'] ?? 0);
}
