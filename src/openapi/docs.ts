import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import type { NestExpressApplication } from '@nestjs/platform-express';
import type { Request, Response } from 'express';
import { writeHead } from '../http/responses.js';
import { describeApi } from './document.js';

const PAGE = `${import.meta.dirname}/page`;
const SWAGGER_UI = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'));

const FILES = {
  '/docs': [`${PAGE}/docs.html`, 'text/html; charset=utf-8'],
  '/docs/docs.css': [`${PAGE}/docs.css`, 'text/css; charset=utf-8'],
  '/docs/docs.js': [`${PAGE}/docs.js`, 'text/javascript; charset=utf-8'],
  '/docs/swagger-ui.css': [`${SWAGGER_UI}/swagger-ui.css`, 'text/css; charset=utf-8'],
  '/docs/swagger-ui-bundle.js': [`${SWAGGER_UI}/swagger-ui-bundle.js`, 'text/javascript; charset=utf-8'],
  '/docs/favicon-32x32.png': [`${SWAGGER_UI}/favicon-32x32.png`, 'image/png'],
} as const;

/** The page loads and calls nothing but its own origin, over plain http too. */
const PAGE_HEADERS = {
  'Content-Security-Policy':
    "default-src 'none';script-src 'self';style-src 'self';img-src 'self' data:;connect-src 'self';" +
    "base-uri 'none';form-action 'none';frame-ancestors 'none'",
  'X-Frame-Options': 'DENY',
};

/** Serves the OpenAPI document, and Swagger UI for people, without a request to anywhere else. */
export function serveDocs(app: NestExpressApplication): void {
  const router = app.getHttpAdapter().getInstance();
  let document: ReturnType<typeof describeApi> | undefined;
  for (const form of ['json', 'yaml'] as const) {
    let send: ReturnType<typeof sender> | undefined;
    router.get(`/openapi.${form}`, (request, response) => {
      send ??= sender(Buffer.from((document ??= describeApi(app))[form]), `application/${form}; charset=utf-8`);
      send(request, response);
    });
  }
  // A proxy may put a prefix in front of all paths, so addresses are relative.
  for (const [path, location] of [
    ['/', 'docs'],
    ['/docs/', '../docs'],
  ] as const) {
    router.get(path, (_request, response: Response) => {
      writeHead(response, 302, { Location: location, 'Content-Length': 0 }).end();
    });
  }
  for (const [path, [file, mediaType]] of Object.entries(FILES)) {
    router.get(path, sender(readFileSync(file), mediaType, PAGE_HEADERS));
  }
}

/** All responses share the bytes: a client that does not read them costs no memory. */
function sender(bytes: Buffer, mediaType: string, headers = {}) {
  const caching = { 'Cache-Control': 'public, no-cache', ETag: `"${hash('sha256', bytes, 'base64url')}"` };
  return (request: Request, response: Response): void => {
    if (request.headers['if-none-match']?.includes(caching.ETag)) {
      writeHead(response, 304, { ...headers, ...caching }).end();
      return;
    }
    const content = { 'Content-Type': mediaType, 'Content-Length': bytes.length };
    writeHead(response, 200, { ...headers, ...caching, ...content }).end(bytes);
  };
}
