import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import type { NestExpressApplication } from '@nestjs/platform-express';
import type { Response } from 'express';
import helmet from 'helmet';
import { asJson, asYaml, describeApi } from './document.js';

const PAGE_FOLDER = `${import.meta.dirname}/page`;
const SWAGGER_UI_FOLDER = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'));

const PAGE_FILES = ['docs.css', 'docs.js'];
const SWAGGER_UI_FILES = ['swagger-ui.css', 'swagger-ui-bundle.js', 'favicon-32x32.png'];

/**
 * What a browser may do with the page: everything comes from this origin. Headers that make sense over https
 * alone are left to whoever terminates TLS; over plain http they would keep the page from working.
 */
const browserHeaders = helmet({
  contentSecurityPolicy: {
    useDefaults: false,
    directives: {
      defaultSrc: ["'none'"],
      scriptSrc: ["'self'"],
      styleSrc: ["'self'"],
      imgSrc: ["'self'", 'data:'],
      connectSrc: ["'self'"],
      baseUri: ["'none'"],
      formAction: ["'none'"],
      frameAncestors: ["'none'"],
    },
  },
  crossOriginOpenerPolicy: false,
  originAgentCluster: false,
  strictTransportSecurity: false,
});

/** Serves the OpenAPI document, and Swagger UI for people, without a request to anywhere else. */
export function serveDocs(app: NestExpressApplication): void {
  const router = app.getHttpAdapter().getInstance();

  let document: { readonly json: string; readonly yaml: string } | undefined;
  const described = () => (document ??= describe(app));
  router.get('/openapi.json', (_request, response) => {
    response.type('application/json').send(described().json);
  });
  router.get('/openapi.yaml', (_request, response) => {
    response.type('application/yaml').send(described().yaml);
  });

  for (const path of ['/', '/docs/']) {
    router.get(path, (_request, response) => {
      response.redirect('/docs');
    });
  }
  const serve = (path: string, file: string, folder: string) => {
    router.get(path, browserHeaders, (_request, response: Response) => {
      response.sendFile(file, { root: folder, acceptRanges: false });
    });
  };
  serve('/docs', 'docs.html', PAGE_FOLDER);
  for (const file of PAGE_FILES) serve(`/docs/${file}`, file, PAGE_FOLDER);
  for (const file of SWAGGER_UI_FILES) serve(`/docs/${file}`, file, SWAGGER_UI_FOLDER);
}

function describe(app: NestExpressApplication) {
  const document = describeApi(app);
  return { json: asJson(document), yaml: asYaml(document) };
}
