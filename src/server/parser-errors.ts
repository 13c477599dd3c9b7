import { randomUUID } from 'node:crypto';
import { type IncomingMessage, STATUS_CODES, type Server, type ServerResponse } from 'node:http';
import { ApiError } from '../errors/api-error.js';
import { BODY_TOO_LARGE } from '../http/json-body.js';
import type { ApiRequest } from '../http/request-context.js';
import { errorHeaders, SECURITY_HEADERS } from '../http/responses.js';
import { HTTP_VERSIONS, MAX_TARGET_LENGTH, TARGET_MALFORMED, methodNotServed, targetTooLong } from './request-head.js';
import type { Connection } from './request-turns.js';
import { type ParserError, UnknownMethodConnection, requestOfUnknownMethod } from './unknown-method.js';

/** The server emits this event for each request that it refuses before the application sees one. */
export const REFUSED = 'refused';
export interface Refused {
  readonly id: string;
  readonly address: string | undefined;
  readonly error: ApiError;
}

interface Failed extends Connection {
  /** `bytesRead` when the parser last refused something on it. */
  failedAt?: number;
  /** Serves what follows, if the parser refused a method. */
  unknownMethod?: UnknownMethodConnection;
}

/** Answers with an Error what Node.js refuses before there is a request. */
export function answerParserErrors(server: Server): void {
  server.on('clientError', (error: ParserError, socket: Failed | (Failed & UnknownMethodConnection)) => {
    // Each further packet fails anew.
    if (socket.failedAt !== undefined) {
      if (error.rawPacket && socket.bytesRead > socket.failedAt) socket.unknownMethod?.receive(error.rawPacket);
      socket.failedAt = socket.bytesRead;
      return;
    }
    socket.failedAt = socket.bytesRead;
    const fault = readParserError(error);
    const { lastRequest } = socket;
    const response = lastRequest?.res;
    const request = socket instanceof UnknownMethodConnection ? undefined : requestOfUnknownMethod(error);
    if (request) {
      socket.unknownMethod = new UnknownMethodConnection(socket);
      socket.unknownMethod.receive(request);
    }
    const answer = () => {
      if (socket.unknownMethod) server.emit('connection', socket.unknownMethod);
      else refuse(server, socket, fault);
    };
    if (!response) {
      answer();
    } else if (lastRequest.complete) {
      // Nothing is answered behind a response that closes the connection.
      afterResponse(response, () => response.shouldKeepAlive && answer());
    } else if (response.headersSent) {
      afterResponse(response, () => socket.destroySoon());
    } else {
      // The head was good, so the request gets its own response; the reader of its body gets the fault.
      response.shouldKeepAlive = false;
      lastRequest.bodyFault = fault;
      if (lastRequest.listenerCount('error') > 0) lastRequest.emit('error', fault);
    }
  });
}

/** An expectation is no reason to refuse (RFC 9110 section 10.1.1); `100 Continue` is sent when the body is wanted. */
export function answerExpectations(server: Server): void {
  for (const event of ['checkContinue', 'checkExpectation'] as const) {
    server.on(event, (request: IncomingMessage, response: ServerResponse) => {
      (request as ApiRequest).awaitsContinue = event === 'checkContinue';
      server.emit('request', request, response);
    });
  }
}

/** The Error follows the response, and comes before Node.js closes a connection that the client has half closed. */
function afterResponse(response: ServerResponse, act: () => void): void {
  if (response.writableFinished) act();
  else response.prependOnceListener('finish', act);
}

/** Messages, by code or reason, for requests that are well-formed, or would be if they had arrived whole. */
const WELL_FORMED: Readonly<Record<string, string>> = {
  HPE_INVALID_EOF_STATE: 'The request did not arrive whole.',
  HPE_INVALID_URL: TARGET_MALFORMED, // also of one that another scheme allows
  HPE_PAUSED_H2_UPGRADE: HTTP_VERSIONS,
  'Invalid HTTP version': HTTP_VERSIONS,
  'Content-Length overflow': 'The Content-Length is beyond all bounds.',
};

function readParserError({ code, reason, rawPacket }: ParserError): ApiError {
  if (code === 'HPE_HEADER_OVERFLOW') {
    const [, target = ''] = /^[A-Z]+ (\S*)/.exec(rawPacket?.toString('latin1') ?? '') ?? [];
    return target.length > MAX_TARGET_LENGTH ? targetTooLong() : new ApiError('header_fields_too_large');
  }
  const chunks = 'The chunk extensions are too large.';
  if (code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW') return new ApiError('payload_too_large', chunks);
  if (reason === 'Chunk size overflow') return new ApiError('payload_too_large', BODY_TOO_LARGE);
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return new ApiError('request_timeout');
  if (reason === 'Invalid method for HTTP/x.x request') return methodNotServed(); // of RTSP, and its head came in pieces
  return new ApiError('bad_request', WELL_FORMED[code ?? ''] ?? WELL_FORMED[reason ?? '']);
}

function refuse(server: Server, socket: Connection, error: ApiError): void {
  if (!socket.writable) return;
  const id = randomUUID();
  server.emit(REFUSED, { id, address: socket.remoteAddress, error } satisfies Refused);
  const body = error.body();
  const own = { Date: new Date().toUTCString(), Connection: 'close' };
  const headers = { 'X-Request-Id': id, ...SECURITY_HEADERS, ...errorHeaders(error, body), ...own };
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(`HTTP/1.1 ${error.status} ${STATUS_CODES[error.status] ?? ''}\r\n${head.join('')}\r\n${body}`);
  socket.destroySoon();
}
