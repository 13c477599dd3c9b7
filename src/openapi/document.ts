import type { INestApplication } from '@nestjs/common';
import { DocumentBuilder, type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import { API_KEY_SCHEME } from '../auth/auth.guard.js';
import { API_PREFIX } from '../http/limits.js';
import { exactIntegers } from '../http/responses.js';
import { COMMON_HEADERS } from './response-docs.js';

/** Version of the interface (docs/interface.md, section 9); not that of the package. */
const INTERFACE_VERSION = '1.0.0';

const DESCRIPTION = `Stock levels of the animals in a pet store: read them all, set them one by one.

Send your API key as a bearer token: \`Authorization: Bearer <API_KEY>\`. Reading needs the scope \`inventory:read\`,
writing \`inventory:write\`.

Every response from 400 on has the same body, an \`Error\`. Programs switch on its \`code\`.

\`petId\` is a 64-bit integer. JavaScript rounds numbers beyond 2^53 when it parses JSON: a client that may meet such
identifiers takes the digits from the text, for example by the \`context.source\` that \`JSON.parse\` gives to its reviver.`;

/** The OpenAPI document of the routes as they are; bounds beyond 2^53 are bigints in it. */
export function describeApi(app: INestApplication): OpenAPIObject {
  const config = new DocumentBuilder()
    .setOpenAPIVersion('3.1.0')
    .setTitle('Pet store inventory')
    .setVersion(INTERFACE_VERSION)
    .setDescription(DESCRIPTION)
    .setLicense('MIT', 'https://spdx.org/licenses/MIT.html')
    .addServer(`/${API_PREFIX}`, 'The service that this document came from')
    .addTag('Inventory', 'What is in the store, and how many.')
    .addSecurity(API_KEY_SCHEME, {
      type: 'http',
      scheme: 'bearer',
      description: 'Your API key. Whoever runs the service issues it.',
    })
    .build();
  const document = SwaggerModule.createDocument(app, config);
  // `allOf` around one reference is how OpenAPI 3.0 put a description beside it; 3.1 and client generators need none.
  for (const schema of Object.values(document.components?.schemas ?? {})) {
    for (const property of Object.values(('properties' in schema && schema.properties) || {})) {
      if (!('allOf' in property) || property.allOf.length !== 1) continue;
      Object.assign(property, property.allOf[0]);
      delete property.allOf;
    }
  }
  return {
    openapi: document.openapi,
    info: { ...document.info, contact: { name: 'The operators of the store' } },
    servers: document.servers ?? [],
    tags: document.tags ?? [],
    // The version belongs to the base address, not to the paths (docs/interface.md, section 9).
    paths: Object.fromEntries(
      Object.entries(document.paths).map(([path, item]) => [path.slice(`/${API_PREFIX}`.length), item]),
    ),
    components: { ...document.components, headers: COMMON_HEADERS },
  };
}

export function asJson(document: OpenAPIObject): string {
  return `${JSON.stringify(document, exactIntegers, 2)}\n`;
}
