import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { OutgoingHttpHeaders, Server, ServerResponse } from 'node:http';
import { gunzipSync } from 'node:zlib';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';

interface Header {
  required?: boolean;
  schema?: { type?: string };
  $ref?: string;
}
interface Response {
  headers?: Record<string, Header>;
  content?: Record<string, unknown>;
}
interface Document {
  servers: [{ url: string }];
  paths: Record<string, Record<string, { responses: Record<string, Response> }>>;
  components: {
    schemas: Record<string, { type?: string; additionalProperties?: boolean }>;
    headers: Record<string, Header>;
  };
}
interface Answer {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly headers: OutgoingHttpHeaders;
  readonly bytes: Buffer;
}

const document = JSON.parse(readFileSync(new URL('../../openapi.json', import.meta.url), 'utf8')) as Document;
const base = new URL(document.servers[0].url, 'http://a/openapi.json').pathname;
// The document leaves answers open, for they may get more members in a later release. Today they have none.
for (const schema of Object.values(document.components.schemas)) {
  if (schema.type === 'object') schema.additionalProperties = false;
}
// That the document is one is tested elsewhere.
const ajv = new Ajv2020({ strict: false, allErrors: true, meta: false, validateSchema: false });
addFormats.default(ajv);
ajv.addSchema(document, 'openapi');
/** Bodies that were as documented, by their hash, for most are sent again and again. */
const goodBodies = new Set<string>();

/**
 * Holds every answer of a server to the OpenAPI document: status, media type, body and headers. Where the document
 * knows no operation, only failures are checked: their body is an Error.
 *
 * @returns what was not as documented, growing as the server answers
 */
export function watchContract(server: Server): readonly string[] {
  const breaches: string[] = [];
  server.prependListener('request', ({ method = 'GET', url = '/' }, response) => {
    const sent = record(response);
    response.once('finish', () => {
      const [path = ''] = url.split('?');
      const headers = { ...response.getHeaders(), ...sent.headers };
      const answer = { method, path, status: response.statusCode, headers, bytes: Buffer.concat(sent.chunks) };
      for (const fault of faultsIn(answer)) {
        const text = answer.bytes.toString('utf8', 0, 200);
        breaches.push(`${method} ${url} was answered ${answer.status} ${text}: ${fault}`);
      }
    });
  });
  return breaches;
}

/** Fills with the body of a response, and the headers that only its `writeHead` is given, by lower-case name. */
function record(response: ServerResponse): { headers: OutgoingHttpHeaders; chunks: Buffer[] } {
  const sent = { headers: {}, chunks: [] as Buffer[] };
  for (const name of ['write', 'end'] as const) {
    const send = response[name].bind(response) as (...args: unknown[]) => unknown;
    response[name] = ((...args: unknown[]) => {
      const [chunk, encoding] = args;
      if (typeof chunk === 'string') sent.chunks.push(Buffer.from(chunk, encoding as BufferEncoding | undefined));
      if (chunk instanceof Uint8Array) sent.chunks.push(Buffer.from(chunk));
      return send(...args);
    }) as never;
  }
  const writeHead = response.writeHead.bind(response) as (...args: unknown[]) => ServerResponse;
  response.writeHead = (...args: unknown[]) => {
    const headers = Object.entries((args[1] ?? {}) as OutgoingHttpHeaders);
    sent.headers = Object.fromEntries(headers.map(([name, value]) => [name.toLowerCase(), value]));
    return writeHead(...args);
  };
  return sent;
}

function faultsIn(answer: Answer): string[] {
  const asPattern = (template: string) => new RegExp(`^${base}${template.replace(/\{\w+\}/g, '[^/]+')}$`);
  const template = Object.keys(document.paths).find((path) => asPattern(path).test(answer.path)) ?? '';
  const verb = (answer.method === 'HEAD' ? 'GET' : answer.method).toLowerCase();
  const operation = document.paths[template]?.[verb];
  if (!operation) return answer.status < 400 ? [] : faultsInBody(answer, '/components/schemas/Error');
  const response = operation.responses[String(answer.status)];
  if (!response) return ['the status is not documented'];
  return [
    ...Object.entries(response.headers ?? {}).flatMap(([name, header]) => faultsInHeader(answer, name, header)),
    ...faultsInContent(answer, response, `/paths/${escaped(template)}/${verb}/responses/${answer.status}`),
  ];
}

function faultsInHeader(answer: Answer, name: string, header: Header): string[] {
  const component = document.components.headers[header.$ref?.split('/').at(-1) ?? ''];
  const { required, schema = {} } = component ?? header;
  const given = answer.headers[name.toLowerCase()];
  if (given === undefined) return required ? [`${name} is missing`] : [];
  const validate = ajv.compile(schema);
  return validate(schema.type === 'integer' ? Number(given) : given) ? [] : faultsOf(validate, name);
}

function faultsInContent(answer: Answer, { content = {} }: Response, pointer: string): string[] {
  const [mediaType] = Object.keys(content);
  if (mediaType === undefined) return answer.bytes.length > 0 ? ['there is a body'] : [];
  const given = String(answer.headers['content-type']);
  return [
    ...(given.split(';')[0] === mediaType ? [] : [`Content-Type is ${given}`]),
    ...faultsInBody(answer, `${pointer}/content/${escaped(mediaType)}/schema`),
  ];
}

function faultsInBody({ method, status, headers, bytes }: Answer, pointer: string): string[] {
  if (method === 'HEAD') return [];
  const known = `${pointer} ${status} ${hash('sha1', bytes)}`;
  if (goodBodies.has(known)) return [];
  const validate = ajv.getSchema(`openapi#${pointer}`);
  if (!validate) throw new Error(`openapi.json has no ${pointer}`);
  let body: { status?: unknown };
  try {
    const text = (headers['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes).toString();
    body = JSON.parse(text) as { status?: unknown };
  } catch {
    return ['the body is not JSON'];
  }
  const faults = validate(body) ? [] : faultsOf(validate, 'body');
  if (status >= 400 && body.status !== status) faults.push('body/status is another');
  if (faults.length === 0) goodBodies.add(known);
  return faults;
}

function escaped(key: string): string {
  return encodeURIComponent(key.replaceAll('~', '~0').replaceAll('/', '~1'));
}

function faultsOf({ errors }: ValidateFunction, what: string): string[] {
  return (errors ?? []).map(({ instancePath, message }) => `${what}${instancePath} ${message}`);
}
