import type { Server, ServerResponse } from 'node:http';
import { type Socket, isIP } from 'node:net';
import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import type { Access } from '../keys/access.ts';
import { type ApiRequest, contextOf, type HttpError } from '../lib/http/index.ts';
import { Settings } from '../settings.ts';
import { type Level, Log } from './log.ts';
import { Metrics } from './metrics.ts';
import type { Tracing } from './tracing.ts';

/** The W3C's recommendation ignores a malformed field; two fields come joined, so they are malformed. */
const TRACEPARENT = /^(?!ff|00.{54})[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?$/;

@Injectable()
export class RequestLog implements OnApplicationShutdown {
  /** Undefined unless traces are on. */
  tracing?: Tracing;
  #successes = 0;

  constructor(
    private readonly settings: Settings,
    private readonly log: Log,
    private readonly metrics: Metrics,
  ) {}

  /** Call it before the application listens. */
  attach(server: Server): void {
    // Node.js keeps the address once it was read; the line is written after the connection has ended.
    server.on('connection', (socket: Socket) => socket.remoteAddress);
    server.on('request', (request, response: ServerResponse) => {
      this.metrics.activeRequests++;
      response.on('close', () => this.#ended(contextOf<Access>(request), response));
    });
  }

  /** For what the parser refused: there is no request. */
  refused(requestId: string, address: string | undefined, { code, status }: HttpError): void {
    this.metrics.malformed.inc({ code });
    this.log.warn({ requestId, address: plain(address), status, code }, 'malformed request');
  }

  async onApplicationShutdown(): Promise<void> {
    await this.tracing?.close();
  }

  #ended(request: ApiRequest<Access>, response: ServerResponse): void {
    const { method, access, sent } = request;
    const failure = sent?.failure;
    const status = response.headersSent ? response.statusCode : 499; // the connection broke before; nginx writes it so
    // One route for all unknown paths: clients must not create series.
    const { path } = (request.route ?? {}) as { path?: string };
    const route = path ?? 'unmatched';
    const durationMs = performance.now() - request.startedAt;
    this.metrics.requestEnded(request, route, status, durationMs / 1_000, failure?.code);
    const tracedAs = this.tracing?.requestEnded(request, path, status, durationMs, failure?.code);

    const level = levelOf(status, route);
    if (!this.log.isEnabled(level)) return;
    if (status < 400 && this.#successes++ % this.settings.LOG_SUCCESS_EVERY !== 0) return;
    const length = sent?.length ?? response.getHeader('Content-Length');
    this.log[level](
      {
        requestId: request.id,
        traceId: tracedAs ?? TRACEPARENT.exec(String(request.headers['traceparent']))?.[1],
        keyId: access?.keyId,
        address: plain(request.socket.remoteAddress),
        forwardedFor: claimedAddresses(request.headers['x-forwarded-for']),
        method,
        route,
        status,
        code: failure?.code,
        reason: access?.failure,
        durationMs: Math.round(durationMs * 1_000) / 1_000,
        bytes: length === undefined ? undefined : Number(length),
        aborted: response.writableFinished ? undefined : true,
        err: failure?.cause ?? (status >= 500 ? failure : undefined),
      },
      'request',
    );
  }
}

/** A socket of both families shows an IPv4 client as `::ffff:192.0.2.1`. */
const plain = (address: string | undefined) => address?.replace(/^::ffff:/, '');

/** The last five addresses, which the nearest proxies wrote. */
function claimedAddresses(forwardedFor: string | readonly string[] | undefined): string | undefined {
  if (forwardedFor === undefined) return undefined;
  const claims = String(forwardedFor).split(',').slice(-5);
  const isAddress = (claim: string) => isIP(claim) && !claim.includes('%'); // an IPv6 address's zone could be any text
  return claims.map((claim) => (isAddress(claim.trim()) ? claim.trim() : 'invalid')).join(', ');
}

function levelOf(status: number, route: string): Level {
  if (route.startsWith('/health/')) return 'debug';
  if (status >= 500) return 'error';
  return status >= 400 ? 'warn' : 'info';
}
