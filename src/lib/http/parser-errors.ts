import { randomUUID } from 'node:crypto';
import { type IncomingMessage, STATUS_CODES, type Server, type ServerResponse } from 'node:http';
import { type HttpError, httpError } from './http-error.ts';
import { BODY_TOO_LARGE } from './json-body.ts';
import type { ApiRequest } from './request-context.ts';
import { errorHeaders, SECURITY_HEADERS } from './responses.ts';
import { type Connection, afterResponse, closeBehind } from './connection.ts';
import { HTTP_VERSIONS, MAX_TARGET_LENGTH, TARGET_MALFORMED, targetTooLong } from './request-head.ts';

/** The server emits this event for each refusal of Node.js's parser that has no request object. */
export const REFUSED = 'refused';
export interface Refused {
  readonly id: string;
  readonly address: string | undefined;
  readonly error: HttpError;
}

interface ParserError extends Error {
  readonly code?: string;
  readonly reason?: string;
  /** The last packet; it begins with the request line when the head came in one piece. */
  readonly rawPacket?: Buffer;
}

interface Failed extends Connection {
  hasFailed?: boolean;
}

/** Answers with an Error what Node.js refuses before there is a request. */
export function answerParserErrors(server: Server): void {
  server.on('clientError', (error: ParserError, socket: Failed) => {
    if (socket.hasFailed) return; // each further packet fails anew
    socket.hasFailed = true;
    const fault = readParserError(error);
    const { lastRequest } = socket;
    const response = lastRequest?.res;
    if (!response) {
      refuse(server, socket, fault);
    } else if (lastRequest.complete) {
      // Nothing is answered behind a response that closes the connection.
      afterResponse(response, () => response.shouldKeepAlive && refuse(server, socket, fault));
    } else {
      // The head was good, so the request gets its own response; the reader of its body gets the fault.
      closeBehind(response);
      lastRequest.received = { ...lastRequest.received, bodyFault: fault };
      if (lastRequest.listenerCount('error') > 0) lastRequest.emit('error', fault);
    }
  });
}

/** An expectation is no reason to refuse (RFC 9110 section 10.1.1); `100 Continue` is sent when the body is wanted. */
export function answerExpectations(server: Server): void {
  for (const event of ['checkContinue', 'checkExpectation'] as const) {
    server.on(event, (request: IncomingMessage, response: ServerResponse) => {
      (request as ApiRequest).received = { awaitsContinue: event === 'checkContinue' };
      server.emit('request', request, response);
    });
  }
}

/** Words for what is refused although it is well-formed, or would be if it had arrived whole; by code or reason. */
const WORDS: Readonly<Record<string, string>> = {
  HPE_INVALID_EOF_STATE: 'The request did not arrive whole.',
  HPE_INVALID_METHOD: 'The method is not known: methods are written in capital letters, such as PATCH.',
  HPE_INVALID_URL: TARGET_MALFORMED, // also of one that another scheme allows
  HPE_PAUSED_H2_UPGRADE: HTTP_VERSIONS,
  'Invalid HTTP version': HTTP_VERSIONS,
};

function readParserError({ code, reason, rawPacket }: ParserError): HttpError {
  if (code === 'HPE_HEADER_OVERFLOW') {
    const [, target = ''] = /^[A-Z]+ (\S*)/.exec(rawPacket?.toString('latin1') ?? '') ?? [];
    return target.length > MAX_TARGET_LENGTH ? targetTooLong() : httpError('header_fields_too_large');
  }
  const isTooLarge = code === 'HPE_CHUNK_EXTENSIONS_OVERFLOW' || reason === 'Chunk size overflow';
  if (isTooLarge) return httpError('payload_too_large', BODY_TOO_LARGE);
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return httpError('request_timeout');
  return httpError('bad_request', WORDS[code ?? ''] ?? WORDS[reason ?? '']);
}

function refuse(server: Server, socket: Connection, error: HttpError): void {
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
