import type { INestApplication } from '@nestjs/common';
import { type OpenAPIObject, SwaggerModule } from '@nestjs/swagger';
import { API_KEY_SCHEME } from '../keys/auth.guard.ts';
import { API_PREFIX } from '../settings.ts';
import { COMMON_HEADERS } from '../errors/response-docs.ts';

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
  servers: [{ url: `./${API_PREFIX}`, description: 'This service' }],
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

/** The OpenAPI document of the routes as they are; bounds beyond 2^53 are bigints. */
export function describeApi(app: INestApplication): OpenAPIObject {
  const { paths, components = {}, ...about } = SwaggerModule.createDocument(app, ABOUT);
  // `allOf` around one reference is how OpenAPI 3.0 put a description beside it; 3.1 and client generators need none.
  for (const schema of Object.values(components.schemas ?? {})) {
    for (const property of Object.values(('properties' in schema && schema.properties) || {})) {
      if (!('allOf' in property) || property.allOf.length !== 1) continue;
      Object.assign(property, property.allOf[0]);
      delete property.allOf;
    }
  }
  return {
    ...about,
    // The version belongs to the base address, not to the paths (docs/interface.md, section 9).
    paths: Object.fromEntries(Object.entries(paths).map(([path, item]) => [path.slice(`/${API_PREFIX}`.length), item])),
    components,
  };
}

/** A stored key would outlive its user's visit, and any page of this origin could read it. */
const KEY_FOR_READING = 'Your API key. This page forgets it when you reload it: no browser keeps a key.';

interface OperationPart {
  readonly in?: string;
  readonly parameters?: readonly { readonly name: string }[];
}

/**
 * The document for Swagger UI. It would round bounds beyond 2^53, send the examples of header fields, and not send what
 * their patterns refuse, so that nobody could try it. For the `If-Match` of a list, it would offer the tag of a pet.
 */
export function forReading(document: OpenAPIObject): OpenAPIObject {
  const json = JSON.stringify(document, (name, value: OperationPart | bigint | null) => {
    if (typeof value === 'bigint') return undefined;
    if (name === 'get') return { ...value, parameters: value?.parameters?.filter((each) => each.name !== 'If-Match') };
    return value?.in === 'header' ? { ...value, schema: { type: 'string' } } : value;
  });
  const page = JSON.parse(json) as OpenAPIObject;
  Object.assign(page.components?.securitySchemes?.[API_KEY_SCHEME] ?? {}, { description: KEY_FOR_READING });
  return page;
}
