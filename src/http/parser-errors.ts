import { randomUUID } from 'node:crypto';
import { type IncomingMessage, STATUS_CODES, type Server, type ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { ApiError } from '../errors/api-error.js';
import { errorHeaders } from '../errors/error.answer.js';

interface ParserError extends Error {
  readonly code?: string;
  /** What the parser was given last; it begins with the request line when the head came in one piece. */
  readonly rawPacket?: Buffer;
}

/** Answers with an Error what Node.js refuses before there is a request, and says so instead of just hanging up. */
export function answerParserErrors(server: Server): void {
  server.on('clientError', (error: ParserError, socket: Duplex) => {
    const pending = (socket as { _httpMessage?: ServerResponse | null })._httpMessage;
    if (error.code === 'ECONNRESET' || !socket.writable || pending?.headersSent) {
      // A request that is being served keeps its answer; garbage behind it must not be taken for that answer.
      if (pending?.headersSent && pending.req.complete) pending.once('finish', () => socket.destroy());
      else socket.destroy();
      return;
    }
    if (pending?.req.complete) {
      pending.shouldKeepAlive = false;
      return;
    }
    refuse(socket, readParserError(error));
  });
  server.on('connect', (_request: IncomingMessage, socket: Duplex) => {
    refuse(
      socket,
      new ApiError('method_not_allowed', 'This service is no proxy.', { Allow: 'GET, HEAD, OPTIONS, PATCH' }),
    );
  });
}

/** An expectation is no reason to refuse (RFC 9110 section 10.1.1); `100 Continue` is sent when the body is wanted. */
export function answerExpectations(server: Server): void {
  for (const event of ['checkContinue', 'checkExpectation'] as const) {
    server.on(event, (request: IncomingMessage, response: ServerResponse) => {
      server.emit('request', request, response);
    });
  }
}

function readParserError({ code, rawPacket }: ParserError): ApiError {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return rawPacket && /^[A-Z]+ \S+$/.test(rawPacket.toString('latin1'))
        ? new ApiError('uri_too_long', 'The request target is too long.')
        : new ApiError('header_fields_too_large', 'The headers are larger than 8 KiB.');
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return new ApiError('payload_too_large', 'The chunk extensions are too large.');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new ApiError('request_timeout', 'The request did not arrive in time.');
    default:
      return new ApiError('bad_request', 'The request is not well-formed HTTP/1.1.');
  }
}

function refuse(socket: Duplex, error: ApiError): void {
  const body = error.body();
  const headers = {
    'X-Request-Id': randomUUID(),
    'X-Content-Type-Options': 'nosniff',
    ...errorHeaders(error, body),
    Date: new Date().toUTCString(),
    Connection: 'close',
  };
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${error.status} ${STATUS_CODES[error.status] ?? ''}\r\n${head.join('')}\r\n${body}`);
}
