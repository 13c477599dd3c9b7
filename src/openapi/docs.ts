import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import type { NestExpressApplication } from '@nestjs/platform-express';
import type { Response } from 'express';
import { stringify } from 'yaml';
import { asJson, describeApi } from './document.js';

const PAGE_FOLDER = `${import.meta.dirname}/page`;
const SWAGGER_UI_FOLDER = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'));

const FOLDERS = {
  'docs.css': PAGE_FOLDER,
  'docs.js': PAGE_FOLDER,
  'swagger-ui.css': SWAGGER_UI_FOLDER,
  'swagger-ui-bundle.js': SWAGGER_UI_FOLDER,
  'favicon-32x32.png': SWAGGER_UI_FOLDER,
};

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
  const describe = () => {
    const document = describeApi(app);
    return { json: asJson(document), yaml: stringify(document, { aliasDuplicateObjects: false }) };
  };
  let documents: ReturnType<typeof describe> | undefined;
  for (const form of ['json', 'yaml'] as const) {
    router.get(`/openapi.${form}`, (_request, response) => {
      response.type(`application/${form}`).send((documents ??= describe())[form]);
    });
  }
  for (const path of ['/', '/docs/']) {
    router.get(path, (_request, response) => {
      response.redirect('/docs');
    });
  }
  const serve = (path: string, file: string, root: string) => {
    router.get(path, ({ headers }, response: Response) => {
      delete headers['if-match']; // is for stock: Express would answer it, by 412
      delete headers['if-unmodified-since'];
      response.sendFile(file, { root, acceptRanges: false, headers: PAGE_HEADERS });
    });
  };
  serve('/docs', 'docs.html', PAGE_FOLDER);
  for (const [file, folder] of Object.entries(FOLDERS)) serve(`/docs/${file}`, file, folder);
}
