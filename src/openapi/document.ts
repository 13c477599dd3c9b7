import type { INestApplication } from '@nestjs/common';
import { type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import { stringify } from 'yaml';
import { API_KEY_SCHEME } from '../auth/auth.guard.js';
import { exactIntegers } from '../http/exact-integers.js';
import { API_PREFIX } from '../settings.js';
import { COMMON_HEADERS } from './response-docs.js';

const DESCRIPTION = `Stock levels of the animals in a pet store: read them all, set them one by one.

Send your API key as a bearer token: \`Authorization: Bearer <API_KEY>\`. Reading needs the scope \`inventory:read\`,
writing needs \`inventory:write\`.

Every response from 400 on has the same body, an \`Error\`. Programs switch on its \`code\`.

\`petId\` is a 64-bit integer. JavaScript rounds numbers beyond 2^53 when it parses JSON. To keep every digit, read the
digits from the text, for example from the \`context.source\` that \`JSON.parse\` gives to its reviver.`;

const ABOUT: Omit<OpenAPIObject, 'paths'> = {
  openapi: '3.1.0',
  info: {
    title: 'Pet store inventory',
    description: DESCRIPTION,
    version: '1.0.0', // of the interface (docs/interface.md, section 9); not that of the package
    contact: { name: 'The operators of the store' },
    license: { name: 'MIT', url: 'https://spdx.org/licenses/MIT.html' },
  },
  // Relative to the document's address: a proxy may put a prefix in front of both.
  servers: [{ url: `./${API_PREFIX}`, description: 'The service that sent this document' }],
  tags: [{ name: 'Inventory', description: 'The stock of the store.' }],
  components: {
    securitySchemes: {
      [API_KEY_SCHEME]: {
        type: 'http',
        scheme: 'bearer',
        description: 'Your API key. The operators of the service issue it.',
      },
    },
    schemas: {}, // of the routes; here for their place
    headers: COMMON_HEADERS,
  },
};

/** The OpenAPI document of the routes as they are, as JSON and as YAML; bounds beyond 2^53 are bigints until then. */
export function describeApi(app: INestApplication): { json: string; yaml: string } {
  const { paths, components, ...about } = SwaggerModule.createDocument(app, ABOUT);
  // `allOf` around one reference is how OpenAPI 3.0 put a description beside it; 3.1 and client generators need none.
  for (const schema of Object.values(components?.schemas ?? {})) {
    for (const property of Object.values(('properties' in schema && schema.properties) || {})) {
      if (!('allOf' in property) || property.allOf.length !== 1) continue;
      Object.assign(property, property.allOf[0]);
      delete property.allOf;
    }
  }
  const document = {
    ...about,
    // The version belongs to the base address, not to the paths (docs/interface.md, section 9).
    paths: Object.fromEntries(Object.entries(paths).map(([path, item]) => [path.slice(`/${API_PREFIX}`.length), item])),
    components,
  };
  return {
    json: `${JSON.stringify(document, exactIntegers, 2)}\n`,
    yaml: stringify(document, { aliasDuplicateObjects: false }),
  };
}
