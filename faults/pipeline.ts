import { requestBytes, type Answer, type Question } from '../test/support/http-client.ts';
import type { Update } from './exchange.ts';
import type { Quantities } from './load.ts';
import type { SeededRandom } from './seeded-random.ts';

/** A request of a pipeline, and the one answer that is right. */
export interface Piece {
  readonly bytes: string;
  /** Its `X-Request-Id`. */
  readonly id?: string;
  readonly status: number;
  readonly toHead?: boolean;
  /** `100 Continue` comes first. */
  readonly interim?: boolean;
  /** The connection ends with its answer. */
  readonly closes?: boolean;
  /** Applied when the status is 200. */
  readonly update?: Update;
  /** What a list has to have: the quantities of pets that nobody else updates. */
  readonly has?: ReadonlyMap<number, number>;
}

/** A request by the status of its answer. */
interface Request {
  readonly status: number;
  readonly method?: string;
  readonly target: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

const LIST = { status: 200, target: '/v1/inventory' };
const UPDATE = { status: 200, method: 'PATCH', target: '/v1/inventory/1', body: '{"quantity":1}' };

/** Requests that must be refused, with the status that says why. */
export const REFUSED: readonly Request[] = [
  { ...UPDATE, status: 400, body: '{"quantity":-1}' },
  { ...UPDATE, status: 400, body: '{"quantity":2147483648}' },
  { ...UPDATE, status: 400, body: '{"quantity":"1"}' },
  { ...UPDATE, status: 400, body: '{"quantity":1,"status":"sold"}' },
  { ...UPDATE, status: 400, body: '{"quantity":' },
  { ...UPDATE, status: 400, body: '{}' },
  { ...UPDATE, status: 400, body: 'null' },
  { ...UPDATE, status: 400, target: '/v1/inventory/abc' },
  { ...UPDATE, status: 400, target: '/v1/inventory/9223372036854775808' },
  { ...LIST, status: 401 },
  { ...UPDATE, status: 401 },
  { ...UPDATE, status: 401, headers: { Authorization: 'Bearer wrong' } },
  { ...UPDATE, status: 401, headers: { Authorization: `Bearer ${'x'.repeat(48)}` } },
  { ...UPDATE, status: 404, target: '/v1/inventory/999999999' },
  { ...UPDATE, status: 404, target: '/v1/pets/1' },
  { ...UPDATE, status: 405, method: 'POST' },
  ...['TRACE', 'DELETE', 'PUT', 'POST'].map((method) => ({ ...LIST, status: 405, method })),
  { ...UPDATE, status: 412, headers: { 'If-Match': '"available-0"' } },
  { ...UPDATE, status: 415, headers: { 'Content-Type': 'text/plain' } },
];

const HARMLESS: readonly Request[] = [
  ...REFUSED,
  { ...LIST, method: 'HEAD' },
  ...['/v1/inventory', '*'].map((target) => ({ status: 204, method: 'OPTIONS', target })),
  ...['/docs', '/docs/swagger-ui.css', '/docs/swagger-ui-bundle.js', '/openapi.json'].map((target) => ({
    status: 200,
    target,
  })),
];

/** Requests that end the connection. */
const CLOSING: readonly Request[] = [
  { ...LIST, headers: { Connection: 'close' } },
  { ...LIST, headers: { Connection: 'Upgrade', Upgrade: 'websocket' } },
  { ...LIST, headers: { Connection: 'Upgrade', Upgrade: 'h2c' } },
  { status: 405, method: 'CONNECT', target: 'pets.test:80' },
  { ...UPDATE, status: 400, headers: { 'Transfer-Encoding': 'chunked' }, body: 'zz\r\n' },
  { ...UPDATE, status: 401, headers: { 'Content-Length': '100000' }, body: 'x' },
];
const GARBAGE = ['garbage\r\n\r\n', 'GET / HTTP/1.1\r\nbroken\r\n\r\n', '\0\x01\x02\r\n\r\n'];

/** A client, which alone updates its pets: so every answer is known beforehand. */
export interface Client {
  readonly apiKey: string;
  readonly random: SeededRandom;
  /** Counts through the run, so that no quantity and no id is sent twice. */
  readonly quantities: Quantities;
  /** What its pets hold, as far as it knows. */
  readonly held: Map<number, number>;
  /** Its other pets, which are left alone, and when it is certain what they hold. */
  readonly inDoubt: Map<number, number>;
}

type Stock = ReadonlyMap<number, number>;

export function nextPipeline(client: Client): Piece[] {
  const { random } = client;
  const stock = new Map(client.held);
  const pieces: Piece[] = [];
  for (let left = random.between(2, 7); left > 0; left--) {
    const piece = random.chance(0.08) ? closing(client, stock) : ordinary(client, stock);
    if (piece.update && piece.status === 200) stock.set(piece.update.petId, piece.update.quantity);
    pieces.push(piece);
  }
  return pieces;
}

function ordinary(client: Client, stock: Stock): Piece {
  const { random } = client;
  if (random.chance(0.5)) return pieceOf(client, stock, random.pick(HARMLESS));
  return stock.size > 0 && random.chance(0.5) ? updateOf(client, stock) : pieceOf(client, stock, LIST);
}

function closing(client: Client, stock: Stock): Piece {
  const { random } = client;
  if (random.chance(0.1)) return { bytes: random.pick(GARBAGE), status: 400, closes: true };
  if (random.chance(0.1)) {
    const list = pieceOf(client, stock, LIST);
    return { ...list, bytes: list.bytes.replace('HTTP/1.1', 'HTTP/1.0'), closes: true };
  }
  return { ...pieceOf(client, stock, random.pick(CLOSING)), closes: true };
}

function updateOf(client: Client, stock: Stock): Piece {
  const { random } = client;
  const quantity = ++client.quantities.last;
  const [petId, held] = random.pick([...stock]);
  const expected = random.chance(0.4) ? random.pick([held, 0]) : undefined;
  const update: Update = { kind: 'update', petId, quantity, ...(expected !== undefined && { expected }) };
  const body = JSON.stringify({ quantity });
  const chunks = `5\r\n${body.slice(0, 5)}\r\n${(body.length - 5).toString(16)}\r\n${body.slice(5)}\r\n0\r\n\r\n`;
  const plain = { headers: {}, body };
  const form = random.pick([
    plain,
    plain,
    plain,
    { headers: { Expect: '100-continue' }, body },
    { headers: { 'Transfer-Encoding': 'chunked' }, body: chunks },
  ]);
  const request = {
    ...UPDATE,
    status: expected === 0 ? 412 : 200,
    target: `/v1/inventory/${petId}`,
    headers: { ...form.headers, ...(expected !== undefined && { 'If-Match': `"available-${expected}"` }) },
    body: form.body,
  };
  return { ...pieceOf(client, stock, request, `q${quantity}`), update, interim: 'Expect' in form.headers };
}

function pieceOf(client: Client, stock: Stock, request: Request, id = `r${++client.quantities.last}`): Piece {
  const { status, method, target } = request;
  const headers = { 'X-Request-Id': id, ...request.headers };
  const bytes = requestBytes(questionOf(client.apiKey, { ...request, headers })).toString('latin1');
  const isList = status === 200 && method === undefined && target === LIST.target;
  return { bytes, id, status, toHead: method === 'HEAD', ...(isList && { has: new Map(stock) }) };
}

/** A request as it is sent: with the key, unless that is what it is refused for. */
export function questionOf(apiKey: string, { status, headers, ...request }: Request): Question {
  const key = status === 401 ? {} : { Authorization: `Bearer ${apiKey}` };
  const content = request.body === undefined ? {} : { 'Content-Type': 'application/json' };
  return { ...request, headers: { ...key, ...content, ...headers } };
}

/** What is wrong with an answer to this piece, undefined when nothing is. */
export function wrongAnswer({ id, status, update, has, closes }: Piece, answer: Answer): string | undefined {
  const { headers, text } = answer;
  if (id !== undefined && headers['x-request-id'] !== id) return `has the id ${String(headers['x-request-id'])}`;
  if (answer.status !== status) return `is ${answer.status} in place of ${status}: ${text.slice(0, 200)}`;
  if (closes && headers['connection'] !== 'close') return 'does not close the connection';
  if (status >= 400 && text !== '' && !text.includes(`"status":${status}`)) return `has no Error body: ${text}`;
  if (update && status === 200 && !text.includes(`"petId":${update.petId},"quantity":${update.quantity},`))
    return `is another's: ${text}`;
  for (const [petId, quantity] of has ?? []) {
    if (!text.includes(`{"petId":${petId},"quantity":${quantity},`)) return `lacks ${quantity} of pet ${petId}`;
  }
  return undefined;
}
