import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, extname } from 'node:path';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import type { NextFunction, Request, Response } from 'express';
import { addCommonHeaders, writeHead } from '../lib/http/index.ts';
import { exactIntegers } from '../lib/http/json.ts';
import { describeApi, forReading } from './document.ts';
import { inventoryPlugin } from './swagger-plugin.ts';

const SWAGGER_UI = dirname(createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'));
const FILES = [
  ...['swagger-ui.css', 'swagger-ui-bundle.js', 'swagger-ui-standalone-preset.js'],
  ...['favicon-16x16.png', 'favicon-32x32.png'],
];

/** The page loads and calls nothing but its own origin. Nest's HTML has two style elements. */
const PAGE_POLICY =
  "default-src 'none';script-src 'self';style-src 'self' 'unsafe-inline';img-src 'self' data:;connect-src 'self';" +
  "base-uri 'none';form-action 'none';frame-ancestors 'none'";

/** Without it, a phone shows a desktop page of 980 pixels. Nest's page has no place for it but behind the title. */
const VIEWPORT = '<meta name="viewport" content="width=device-width, initial-scale=1">';

/** Swagger UI's tables are wider than a phone: there, one cell stands below the other. */
const NARROW = `@media (max-width: 40em) {
  .swagger-ui .opblock-body :is(table, tbody, tr, td) { display: block; width: auto; }
  .swagger-ui .opblock-body :is(thead, .response-col_links) { display: none; }
  .swagger-ui .opblock-body .btn { padding-inline: 0.5em; }
  .swagger-ui .opblock-body td :is(input, .btn) { max-width: 100%; overflow-wrap: anywhere; }
  .swagger-ui .highlight-code:has(.download-contents) > .microlight { padding-bottom: 50px !important; }
}`;

/** Serves the OpenAPI document, and Swagger UI for people, without a request to anywhere else. */
export function serveDocs(app: NestExpressApplication): void {
  const router = app.getHttpAdapter().getInstance();
  let described: OpenAPIObject | undefined;
  const document = () => (described ??= describeApi(app));

  // A proxy may put a prefix in front of all paths, so addresses are relative.
  for (const [path, location] of [
    ['/', 'docs'],
    ['/docs/', '../docs'],
    ['/docs/index.html', '../docs'], // SwaggerModule would serve the page here, with links that lead nowhere
  ] as const) {
    router.get(path, (_request, response: Response) => {
      writeHead(response, 302, { Location: location, 'Content-Length': 0 }).end();
    });
  }

  router.use(['/docs', '/openapi.json'], (_: Request, response: Response, next: NextFunction) => {
    addCommonHeaders(response);
    response.set('Content-Security-Policy', PAGE_POLICY);
    next();
  });
  // SwaggerModule's own document fails at bigints, and is written anew for each request.
  serve('/openapi.json', 'json', () => `${JSON.stringify(document(), exactIntegers, 2)}\n`);
  // SwaggerModule's static files would be no routes, and would end some time after their last bytes went out.
  for (const file of FILES) serve(`/docs/${file}`, extname(file), () => readFileSync(`${SWAGGER_UI}/${file}`));
  SwaggerModule.setup('docs', app, () => forReading(document()), {
    raw: false,
    customSwaggerUiPath: `${SWAGGER_UI}/none`,
    customCss: NARROW,
    customSiteTitle: `Pet store inventory</title>${VIEWPORT}`,
    swaggerOptions: { plugins: [inventoryPlugin], showExtensions: true, tryItOutEnabled: true, validatorUrl: null },
  });

  /** All responses share the bytes: a client that does not read them costs no memory. */
  function serve(path: string, type: string, make: () => string | Buffer): void {
    let bytes: Buffer | undefined;
    let headers = {};
    router.get(path, (_request, response: Response) => {
      if (!bytes) {
        bytes = Buffer.from(make());
        headers = { 'Cache-Control': 'public, no-cache', ETag: `"${hash('sha256', bytes, 'base64url')}"` };
      }
      response.type(type).set(headers).send(bytes);
    });
  }
}
