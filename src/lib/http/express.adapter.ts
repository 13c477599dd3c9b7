import { IncomingMessage, ServerResponse, createServer } from 'node:http';
import type { Socket } from 'node:net';
import { StreamableFile } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import express, { type Application, type Express, type Request, type Response } from 'express';
import { ApiError } from './api-error.ts';
import { inContext } from './request-context.ts';
import { addCommonHeaders, sendError, sendJson, writeHead } from './responses.ts';
import { closeGently, oneAtATime } from './connection.ts';
import { Drain } from './drain.ts';
import type { Limits } from './limits.ts';
import { OpenConnections } from './open-connections.ts';
import { answerExpectations, answerParserErrors } from './parser-errors.ts';
import { validateHead } from './request-head.ts';

export class InventoryExpressAdapter extends ExpressAdapter {
  readonly drain = new Drain();
  /** Express tries routes in order: rarely used ones come last. */
  addLastRoutes?: () => void;

  constructor(private readonly limits: Limits) {
    const app = express();
    app.disable('x-powered-by');
    app.disable('etag');
    app.enable('case sensitive routing');
    app.enable('strict routing');
    super(app);
  }

  /** Creates requests and responses with the prototypes of Express: changing them later slows each request. */
  override initHttpServer(): void {
    const app = this.getInstance<Express>();
    class OwnRequest extends IncomingMessage {}
    // For CONNECT: Node.js would hand over its connection, and drop waiting responses. It ignores `Upgrade` by itself.
    Object.defineProperty(OwnRequest.prototype, 'upgrade', { get: () => false, set: () => undefined });
    class OwnResponse extends ServerResponse<OwnRequest> {}
    Object.setPrototypeOf(OwnRequest.prototype, app.request as object);
    Object.setPrototypeOf(OwnResponse.prototype, app.response as object);
    Object.assign(app, { request: OwnRequest.prototype, response: OwnResponse.prototype });

    const { limits } = this;
    const connections = new OpenConnections(limits);
    const server = createServer(
      {
        IncomingMessage: OwnRequest,
        ServerResponse: OwnResponse,
        maxHeaderSize: 8_192, // all headers together
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
        const fault = validateHead(inContext(request));
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
  if (methods.length === 0) sendError(response, new ApiError('not_found', 'There is nothing at this path.'));
  else if (request.method === 'OPTIONS') writeHead(response, 204, allow).end();
  else sendError(response, new ApiError('method_not_allowed', `This path takes ${allow.Allow} only.`, allow));
}

interface Layer {
  readonly route?: { readonly methods: Readonly<Record<string, boolean>> };
  match(path: string): boolean;
}

/** The methods of the routes at this path, or of all routes for `*`, with `HEAD` and `OPTIONS`. Empty if there is no route. */
function methodsAt(app: Application, path: string): string[] {
  const methods = new Set<string>();
  for (const layer of (app.router as unknown as { stack: readonly Layer[] }).stack) {
    if (!layer.route || !(path === '*' || layer.match(path))) continue;
    for (const method of Object.keys(layer.route.methods)) methods.add(method.toUpperCase());
  }
  if (methods.has('GET')) methods.add('HEAD');
  if (methods.size > 0) methods.add('OPTIONS');
  return [...methods].sort();
}
