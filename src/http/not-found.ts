import type { Express, RequestHandler } from 'express';
import { ApiError } from '../errors/api-error.js';
import { sendError, writeHead } from './responses.js';

interface Layer {
  readonly route?: { readonly methods: Readonly<Record<string, boolean>> };
  match(path: string): boolean;
}

/** Methods that the routes take at this path, at any path for `*`; `HEAD` and `OPTIONS` included, empty where no route is. */
export function methodsAt(app: Express, path: string): string[] {
  const methods = new Set<string>();
  for (const layer of (app.router as unknown as { stack: readonly Layer[] }).stack) {
    if (!layer.route || !(path === '*' || layer.match(path))) continue;
    for (const method of Object.keys(layer.route.methods)) methods.add(method.toUpperCase());
  }
  if (methods.has('GET')) methods.add('HEAD');
  if (methods.size > 0) methods.add('OPTIONS');
  return [...methods].sort();
}

/** Answers what no route took: `OPTIONS` with 204, a wrong method with 405, anything else with 404. */
export function notFound(app: Express): RequestHandler {
  return (request, response) => {
    const methods = methodsAt(app, request.path);
    const allow = { Allow: methods.join(', ') };
    if (methods.length === 0) {
      sendError(response, new ApiError('not_found', 'There is nothing at this path.'));
    } else if (request.method === 'OPTIONS') {
      writeHead(response, 204, allow).end();
    } else {
      const message = `This path takes ${allow.Allow} only.`;
      sendError(response, new ApiError('method_not_allowed', message, allow));
    }
  };
}
