import type { Server, ServerResponse } from 'node:http';
import { type Socket, isIP } from 'node:net';
import { Injectable } from '@nestjs/common';
import { Settings } from '../settings.js';
import { ApiError } from '../errors/api-error.js';
import type { ResponseHead } from '../http/response-headers.js';
import { type ApiRequest, inContext } from '../http/api-request.js';
import { REFUSED, type Refused } from '../http/parser-errors.js';
import { describeFailure } from './failure.text.js';
import { type Level, Log } from './log.js';
import { Metrics } from './metrics.js';

/** Paths that no route has are one route, so that nobody can make new series. */
const UNMATCHED = 'unmatched';

/** The status of a request whose connection broke before there was one, as nginx writes it. */
const CLIENT_GONE = 499;

const MAX_CLAIMED_ADDRESSES = 5;

const TRACEPARENT = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;

type Answer = ServerResponse & ResponseHead;

/** Sees every request from its head to the end of its answer, and tells the metrics and the log. */
@Injectable()
export class RequestLog {
  readonly #logSuccessEvery: number;
  #successes = 0;

  constructor(
    settings: Settings,
    private readonly log: Log,
    private readonly metrics: Metrics,
  ) {
    this.#logSuccessEvery = settings.LOG_SUCCESS_EVERY;
  }

  /** Listens before the application does, so that nothing which answers a request can pass unseen. */
  attach(server: Server): void {
    const ended = (request: ApiRequest, response: Answer) => {
      this.#ended(request, response);
    };
    function close(this: Answer): void {
      ended(inContext(this.req), this);
    }
    // Asked for once, Node.js remembers it beyond the end of the connection, when the line is written.
    server.on('connection', (socket: Socket) => socket.remoteAddress);
    server.prependListener('request', (_request, response: Answer) => {
      this.metrics.activeRequests++;
      response.on('close', close);
    });
    server.on(REFUSED, (refused: Refused) => {
      this.#refused(refused);
    });
  }

  #ended(request: ApiRequest, response: Answer): void {
    const { method, failure } = request;
    const status = response.headersSent ? response.statusCode : CLIENT_GONE;
    const route = String((request.route as { path: string | string[] } | undefined)?.path ?? UNMATCHED);
    const durationMs = performance.now() - request.arrivedAt;
    this.metrics.activeRequests--;
    this.metrics.requestEnded(method, route, status, durationMs / 1_000);
    if (status >= 400)
      this.metrics.requestFailed(failure instanceof ApiError ? failure.code : undefined, request.refusal);

    const level = levelOf(status, route);
    if (!this.log.takes(level) || (status < 400 && this.#successes++ % this.#logSuccessEvery !== 0)) return;
    const length = response.head?.['Content-Length'] ?? response.getHeader('Content-Length');
    const line = {
      requestId: request.id,
      traceId: traceIdOf(request.headers['traceparent']),
      keyId: request.keyId,
      address: request.socket.remoteAddress,
      forwardedFor: claimedAddresses(request.headers['x-forwarded-for']),
      method,
      route,
      status,
      code: failure instanceof ApiError ? failure.code : undefined,
      reason: request.refusal,
      durationMs: Math.round(durationMs * 1_000) / 1_000,
      bytes: length === undefined ? undefined : Number(length),
      aborted: response.writableFinished ? undefined : true,
      err: status >= 500 && failure instanceof Error ? describeFailure(failure.cause ?? failure) : undefined,
      msg: 'request',
    };
    this.log.write(level, line);
  }

  #refused({ id, address, error }: Refused): void {
    this.metrics.requestMalformed(error.code);
    this.log.warn({ requestId: id, address, status: error.status, code: error.code }, 'malformed request');
  }
}

/** A malformed field is ignored, as the W3C's recommendation has it; two of them come as an array or joined, so malformed. */
function traceIdOf(traceparent: string | readonly string[] | undefined): string | undefined {
  return typeof traceparent === 'string' ? TRACEPARENT.exec(traceparent)?.[1] : undefined;
}

/** What the client, or a proxy, claims: the last addresses, which the nearest proxies wrote. Nothing else goes into the log. */
function claimedAddresses(forwardedFor: string | readonly string[] | undefined): string | undefined {
  if (forwardedFor === undefined) return undefined;
  const claims = String(forwardedFor).split(',').slice(-MAX_CLAIMED_ADDRESSES);
  return claims.map((claim) => (isIP(claim.trim()) ? claim.trim() : 'invalid')).join(', ');
}

/** Probes come every second; what they find is logged when it changes. */
function levelOf(status: number, route: string): Level {
  if (route.startsWith('/health/')) return 'debug';
  if (status >= 500) return 'error';
  return status >= 400 ? 'warn' : 'info';
}
