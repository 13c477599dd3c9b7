import { IncomingMessage, ServerResponse, createServer } from 'node:http';
import type { Socket } from 'node:net';
import { StreamableFile } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import express, { type Express, type Request, type Response } from 'express';
import { exactIntegers } from './json.ts';
import { httpError } from './http-error.ts';
import { contextOf } from './request-context.ts';
import { addCommonHeaders, sendError, sendJson, writeHead } from './responses.ts';
import { closeGently, oneAtATime } from './connection.ts';
import { Drain } from './drain.ts';
import type { Limits } from './limits.ts';
import { methodsAt } from './methods.ts';
import { OpenConnections } from './open-connections.ts';
import { answerExpectations, answerParserErrors } from './parser-errors.ts';
import { validateHead } from './request-head.ts';

/** Nest on Express, with strict paths, one request of a connection at a time, and an Error for each refusal. */
export class StrictExpressAdapter extends ExpressAdapter {
  readonly drain = new Drain(() => this.#connections.isAnswering());
  /** Express tries routes in order: rarely used ones come last. */
  addLastRoutes?: () => void;

  readonly #connections: OpenConnections;

  constructor(private readonly limits: Limits) {
    const app = express();
    app.disable('x-powered-by');
    app.disable('etag');
    app.enable('case sensitive routing');
    app.enable('strict routing');
    app.set('json replacer', exactIntegers); // for handlers that write by `response.json`
    super(app);
    this.#connections = new OpenConnections(limits);
  }

  /** Creates requests and responses with the prototypes of Express: changing them later slows each request. */
  override initHttpServer(): void {
    const app = this.getInstance<Express>();
    class OwnRequest extends IncomingMessage {}
    // Node.js would hand over the connection of a CONNECT. It ignores `Upgrade` without a listener.
    Object.defineProperty(OwnRequest.prototype, 'upgrade', { get: () => false, set: () => undefined });
    class OwnResponse extends ServerResponse<OwnRequest> {}
    Object.setPrototypeOf(OwnRequest.prototype, app.request as object);
    Object.setPrototypeOf(OwnResponse.prototype, app.response as object);
    Object.assign(app, { request: OwnRequest.prototype, response: OwnResponse.prototype });

    const { limits } = this;
    const connections = this.#connections;
    const server = createServer(
      {
        IncomingMessage: OwnRequest,
        ServerResponse: OwnResponse,
        maxHeaderSize: 16_384, // all headers together
        insecureHTTPParser: false, // whatever NODE_OPTIONS say
        requireHostHeader: false, // validateHead asks for it, and answers with an Error
        headersTimeout: limits.headMs,
        requestTimeout: limits.requestMs,
        keepAliveTimeout: limits.idleMs,
        connectionsCheckingInterval: 1_000,
      },
      oneAtATime((request, response) => {
        if (request.method === 'CONNECT' || this.drain.isDraining) response.shouldKeepAlive = false;
        // In front of Express, which answers some request targets with a page of its own before any middleware.
        const fault = validateHead(contextOf(request));
        if (fault) sendError(response, fault);
        else app(request, response);
      }, connections.responded.bind(connections)),
    );
    server.maxHeadersCount = 0; // validateHead counts; Node.js would drop headers in silence
    Object.assign(server, { httpAllowHalfOpen: true }); // a client that shuts down its sending side gets its response
    server.timeout = limits.stalledMs;
    server.on('connection', (socket: Socket) => {
      socket.destroySoon = closeGently;
      connections.admit(socket);
    });
    answerParserErrors(server);
    answerExpectations(server);
    this.setHttpServer(server);
  }

  override registerParserMiddleware(): void {
    // `JsonBody` reads the body after the guards.
  }

  /** Writes what a handler returns: an object as JSON, in one call. */
  override reply(response: Response, body: unknown, status = response.statusCode): void {
    if (typeof body === 'object' && body !== null && !(body instanceof StreamableFile)) {
      sendJson(response, status, body);
    } else {
      addCommonHeaders(response);
      super.reply(response, body, status);
    }
  }

  override setNotFoundHandler(): this {
    this.addLastRoutes?.();
    this.use(notFound);
    return this;
  }
}

/** Answers what no route took: `OPTIONS` with 204, a wrong method with 405, anything else with 404. */
function notFound(request: Request, response: Response): void {
  const methods = methodsAt(request.app, request.path);
  const allow = { Allow: methods.join(', ') };
  if (methods.length === 0) sendError(response, httpError('not_found'));
  else if (request.method === 'OPTIONS') writeHead(response, 204, allow).end();
  else sendError(response, httpError('method_not_allowed', `This path takes ${allow.Allow} only.`, allow));
}
