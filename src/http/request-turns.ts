import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { ApiRequest } from './api-request.js';

/** A client that is still sending gets this long, so that it can read the response. */
const LINGER_MS = 500;

/** Requests of a connection. Each takes some 2 KiB, though 24 bytes may be all that was sent. */
export const MOST_WAITING = 8;

/** What Node.js tells its parser of a message that begins another protocol, so that it reads no further. */
const NO_MORE_HTTP = 2;

/** A connection, and the request whose head came last on it, as long as that is under way. */
export interface Connection extends Socket {
  lastRequest?: ApiRequest | undefined;
  /** Its requests that wait for their turn. */
  waiting?: number;
  /** The bytes read when the last request began that did not have to wait. */
  begunAt?: number;
  /** Of Node.js, as long as it reads this connection. */
  parser?: { onIncoming: () => number; getCurrentBuffer(): Buffer | undefined } | null;
}

type Serve = (request: IncomingMessage, response: ServerResponse) => void;

/**
 * Serves the requests of a connection one at a time: what follows an update sees it (RFC 9112 section 9.3.2), and what
 * follows the end of the connection is not begun.
 *
 * Node.js gives a response the socket once the response before it is written, so that is the turn of its request. Until
 * then nothing more is read: what waits is what a read or two have brought, and of that the first {@link MOST_WAITING}.
 */
export function inTurn(serve: Serve): Serve {
  return (request, response) => {
    const socket: Connection = request.socket;
    socket.lastRequest = Object.assign(request, { res: response }) as ApiRequest;
    if (request.headers.upgrade !== undefined) socket.lastRequest.endsAt = endOf(request);
    response.on('close', forget);
    if (response.socket && isFirstOfRead(socket)) {
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

/** Not a number where that cannot be told: it has chunks, or its head has not come alone and in one piece. */
function endOf({ socket, headers }: IncomingMessage): number {
  const read = (socket as Connection).parser?.getCurrentBuffer() ?? Buffer.alloc(0);
  const bodyAt = read.indexOf('\r\n\r\n') + 4;
  if (headers['transfer-encoding'] !== undefined || bodyAt < 4 || /^\s/.test(read.toString('latin1', 0, 1))) return NaN;
  return socket.bytesRead - (read.length - bodyAt) + Number(headers['content-length'] ?? 0);
}

/** Of what one read has brought one request is begun at once, or a pipeline would keep everybody else waiting. */
function isFirstOfRead(socket: Connection): boolean {
  const { bytesRead } = socket;
  if (bytesRead === socket.begunAt) return false;
  socket.begunAt = bytesRead;
  return true;
}

/** Whether requests wait for the end of this one. */
export function othersWait(request: IncomingMessage): boolean {
  return (request.socket as Connection).lastRequest !== request;
}

/** An idle connection keeps no request, unless its body is still coming though the response is out. */
function forget(this: ServerResponse): void {
  const socket: Connection = this.req.socket;
  if (socket.lastRequest === this.req && this.req.complete) socket.lastRequest = undefined;
}

/**
 * What Node.js calls when the last response of a connection is written. Closing with data unread would reset the connection,
 * and could take responses with it that the client has not read yet (RFC 9112 section 9.6).
 */
export function closeGently(this: Connection): void {
  takeNoMore(this);
  this.end();
  readOn(this);
  const timer = setTimeout(() => this.destroy(), LINGER_MS);
  this.once('close', () => clearTimeout(timer));
}

/** What still comes makes no requests: Node.js would keep them, unanswered, until the connection has closed. */
function takeNoMore({ parser }: Connection): void {
  if (parser) parser.onIncoming = () => NO_MORE_HTTP;
}

/** Node.js itself would resume at the end of each message; the next one's body is read when it is its turn. */
function stopReading(socket: Socket): void {
  socket.pause();
  socket.resume = () => socket;
}

function readOn(socket: Socket): void {
  Reflect.deleteProperty(socket, 'resume');
  socket.resume();
}
