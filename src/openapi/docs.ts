import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import type { NestExpressApplication } from '@nestjs/platform-express';
import type { Response } from 'express';
import { describeApi } from './document.js';

const PAGE = `${import.meta.dirname}/page`;
const SWAGGER_UI = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'));

const FILES = {
  '/docs': `${PAGE}/docs.html`,
  '/docs/docs.css': `${PAGE}/docs.css`,
  '/docs/docs.js': `${PAGE}/docs.js`,
  '/docs/swagger-ui.css': `${SWAGGER_UI}/swagger-ui.css`,
  '/docs/swagger-ui-bundle.js': `${SWAGGER_UI}/swagger-ui-bundle.js`,
  '/docs/favicon-32x32.png': `${SWAGGER_UI}/favicon-32x32.png`,
};

/** The page loads and calls nothing but its own origin, over plain http too. */
const FILE_HEADERS = {
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
    router.get(`/openapi.${form}`, (_request, response) => {
      response.type(`application/${form}`).send((document ??= describeApi(app))[form]);
    });
  }
  for (const path of ['/', '/docs/']) {
    router.get(path, (_request, response) => {
      response.redirect('/docs');
    });
  }
  for (const [path, file] of Object.entries(FILES)) {
    router.get(path, ({ headers }, response: Response) => {
      delete headers['if-match']; // is for stock: Express would answer it, by 412
      delete headers['if-unmodified-since'];
      // Wherever the service is installed: a folder above may be a hidden one.
      response.sendFile(file, { dotfiles: 'allow', acceptRanges: false, headers: FILE_HEADERS });
    });
  }
}
