import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { ApiRequest, ClientSocket } from '../http/request-context.js';

/** A client that is still sending has this long to read the response. */
const LINGER_MS = 500;

/** Most requests of a connection that wait. Even one of 24 bytes takes some 2 KiB of memory. */
export const MOST_WAITING = 8;

export interface Connection extends ClientSocket {
  /** The request whose head came last, while it is under way. */
  lastRequest?: ApiRequest | undefined;
  waiting?: number;
  /** `bytesRead` when a request last began without waiting. */
  begunAt?: number;
  parser?: { onIncoming: () => number; getCurrentBuffer(): Buffer | undefined } | null;
}

type Serve = (request: IncomingMessage, response: ServerResponse) => void;

/**
 * Serves the requests of a connection in turn, so that a list shows the update before it (RFC 9112 section 9.3.2).
 * Node.js gives a response the socket when the response before it is written: that is its turn.
 */
export function inTurn(serve: Serve): Serve {
  return (request, response) => {
    const socket: Connection = request.socket;
    socket.lastRequest = Object.assign(request, { res: response }) as ApiRequest;
    if (request.headers.upgrade !== undefined) socket.lastRequest.endsAt = endOf(request);
    response.on('close', ended);
    // Only one request of each read begins at once: a pipeline must not keep other connections waiting.
    if (response.socket && socket.bytesRead !== socket.begunAt) {
      socket.begunAt = socket.bytesRead;
      serve(request, response);
      return;
    }
    stopReading(socket);
    socket.waiting = (socket.waiting ?? 0) + 1;
    if (socket.waiting === MOST_WAITING) {
      response.shouldKeepAlive = false;
      takeNoMore(socket);
    }
    const begin = () => {
      socket.waiting = (socket.waiting ?? 0) - 1;
      setImmediate(() => {
        if (socket.destroyed) return;
        if (!othersWait(request)) readOn(socket);
        serve(request, response);
      });
    };
    if (response.socket) begin();
    else response.once('socket', begin);
  };
}

/** Where the request ends, in bytes of its connection; the end of its head if chunks follow. NaN if the head came in pieces. */
function endOf({ socket, headers }: IncomingMessage): number {
  const read = (socket as Connection).parser?.getCurrentBuffer() ?? Buffer.alloc(0);
  const bodyAt = read.indexOf('\r\n\r\n') + 4;
  if (bodyAt < 4 || /^\s/.test(read.toString('latin1', 0, 1))) return NaN;
  return socket.bytesRead - (read.length - bodyAt) + Number(headers['content-length'] ?? 0);
}

/** Whether requests wait for the end of this one. */
export const othersWait = (request: IncomingMessage) => (request.socket as Connection).lastRequest !== request;

/** An idle connection keeps no request in memory; a body may still come behind its response. */
function ended(this: ServerResponse): void {
  const socket: Connection = this.req.socket;
  socket.openConnections?.responded(socket);
  if (socket.lastRequest === this.req && this.req.complete) socket.lastRequest = undefined;
}

/** Replaces `destroySoon`: closing with unread data can destroy the last response (RFC 9112 section 9.6). */
export function closeGently(this: Connection): void {
  takeNoMore(this);
  this.end();
  readOn(this);
  const timer = setTimeout(() => this.destroy(), LINGER_MS);
  this.once('close', () => clearTimeout(timer));
}

/** Node.js would keep further requests in memory until the connection has closed. */
function takeNoMore({ parser }: Connection): void {
  if (parser) parser.onIncoming = () => 2; // its code for "another protocol follows"
}

/** Node.js would resume reading at the end of each message. */
function stopReading(socket: Socket): void {
  socket.pause();
  socket.resume = () => socket;
}

function readOn(socket: Socket): void {
  Reflect.deleteProperty(socket, 'resume');
  socket.resume();
}
