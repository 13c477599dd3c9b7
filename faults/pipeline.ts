import type { Answer } from '../test/support/http-client.ts';
import type { Update } from './exchange.ts';
import type { Quantities } from './load.ts';
import type { SeededRandom } from './seeded-random.ts';

/** A request of a pipeline, and the one answer that is right. */
export interface Piece {
  readonly bytes: string;
  /** Sent as `X-Request-Id`; undefined where there is no request to have one. */
  readonly id: string | undefined;
  readonly status: number;
  readonly toHead?: boolean;
  /** Whether `100 Continue` comes first. */
  readonly interim?: boolean;
  /** Whether the connection ends with its answer, whatever is sent behind it. */
  readonly closes?: boolean;
  /** An update that may be applied, and is when the status is 200. */
  readonly update?: Update;
  /** Of a list, what it has to have: the quantities of pets that nobody else updates. */
  readonly has?: ReadonlyMap<number, number>;
}

const FILES = ['/docs', '/docs/swagger-ui.css', '/docs/swagger-ui-bundle.js', '/openapi.json'];

/** Makes pipelines for one client, which alone updates its pets: so every answer is known beforehand. */
export class Pipelines {
  private last = 0;
  private readonly name: string;
  private readonly apiKey: string;
  private readonly quantities: Quantities;
  private readonly random: SeededRandom;

  constructor(name: string, apiKey: string, quantities: Quantities, random: SeededRandom) {
    this.name = name;
    this.apiKey = apiKey;
    this.quantities = quantities;
    this.random = random;
  }

  /** @param held what the client's pets hold before; pets that are not in it are left alone */
  next(held: ReadonlyMap<number, number>): Piece[] {
    const state = new Map(held);
    const pieces: Piece[] = [];
    for (let left = this.random.between(2, 12); left > 0; left--) {
      const piece = this.random.chance(0.08) ? this.closing(state) : this.ordinary(state);
      if (piece.update && piece.status === 200) state.set(piece.update.petId, piece.update.quantity);
      pieces.push(piece);
    }
    return pieces;
  }

  private ordinary(state: ReadonlyMap<number, number>): Piece {
    const { random } = this;
    const body = '{"quantity":1}';
    const noKey = { Authorization: undefined };
    switch (random.between(1, 16)) {
      case 1:
      case 2:
      case 3:
      case 4:
        return { ...this.request('GET', '/v1/inventory', 200), has: new Map(state) };
      case 5:
      case 6:
      case 7:
      case 8:
        return this.update(state);
      case 9:
        return { ...this.request('HEAD', '/v1/inventory', 200), toHead: true };
      case 10:
        return this.request('GET', '/v1/inventory', 401, noKey);
      case 11:
        return this.request('PATCH', '/v1/inventory/1', 401, noKey, body);
      case 12:
        return this.request('PATCH', '/v1/inventory/1', 400, {}, random.pick(['{"quantity":-1}', '{', 'null']));
      case 13:
        return this.request('PATCH', '/v1/inventory/999999999', 404, {}, body);
      case 14:
        return this.request('OPTIONS', random.pick(['/v1/inventory', '*']), 204);
      case 15:
        return this.request(random.pick(['TRACE', 'DELETE', 'PUT', 'POST']), '/v1/inventory', 405);
      default:
        return this.request('GET', random.pick(FILES), 200);
    }
  }

  private update(state: ReadonlyMap<number, number>): Piece {
    const { random } = this;
    if (state.size === 0) return this.request('GET', '/v1/inventory', 200);
    const quantity = ++this.quantities.last;
    const [petId, held] = random.pick([...state]);
    const expected = random.chance(0.4) ? random.pick([held, 0]) : undefined;
    const tag = { 'If-Match': expected === undefined ? undefined : `"available-${expected}"` };
    const update: Update = { kind: 'update', petId, quantity, ...(expected === undefined ? {} : { expected }) };
    const status = expected === 0 ? 412 : 200;
    const path = `/v1/inventory/${petId}`;
    const body = JSON.stringify({ quantity });
    const piece = { update, id: `q${quantity}` };
    switch (random.between(1, 5)) {
      case 1: {
        const interim = { ...tag, Expect: '100-continue' };
        return { ...this.request('PATCH', path, status, interim, body, piece.id), ...piece, interim: true };
      }
      case 2: {
        const chunks = `5\r\n${body.slice(0, 5)}\r\n${(body.length - 5).toString(16)}\r\n${body.slice(5)}\r\n0\r\n\r\n`;
        const chunked = { ...tag, 'Content-Length': undefined, 'Transfer-Encoding': 'chunked' };
        return { ...this.request('PATCH', path, status, chunked, chunks, piece.id), ...piece };
      }
      default:
        return { ...this.request('PATCH', path, status, tag, body, piece.id), ...piece };
    }
  }

  private closing(state: ReadonlyMap<number, number>): Piece {
    const list = (headers: Headers) => ({
      ...this.request('GET', '/v1/inventory', 200, headers),
      has: new Map(state),
      closes: true,
    });
    const malformed = { 'Content-Length': undefined, 'Transfer-Encoding': 'chunked' };
    switch (this.random.between(1, 8)) {
      case 1:
      case 2:
        return { ...this.request('CONNECT', 'pets.test:80', 405), closes: true };
      case 3:
        return list({ Connection: 'Upgrade', Upgrade: this.random.pick(['websocket', 'h2c']) });
      case 4:
        return list({ Connection: 'close' });
      case 5: {
        const old = list({});
        return { ...old, bytes: old.bytes.replace('HTTP/1.1', 'HTTP/1.0') };
      }
      case 6:
        return { ...this.request('PATCH', '/v1/inventory/1', 400, malformed, 'zz\r\n'), closes: true };
      case 7: {
        const endless = { Authorization: undefined, 'Content-Length': '100000' };
        return { ...this.request('PATCH', '/v1/inventory/1', 401, endless, 'x'), closes: true };
      }
      default: {
        const bytes = this.random.pick(['garbage\r\n\r\n', 'GET / HTTP/1.1\r\nbroken\r\n\r\n', '\0\x01\x02\r\n\r\n']);
        return { bytes, id: undefined, status: 400, closes: true };
      }
    }
  }

  private request(
    method: string,
    target: string,
    status: number,
    headers: Headers = {},
    body = '',
    id = `${this.name}-${++this.last}`,
  ): Piece {
    const content = { 'Content-Type': 'application/json', 'Content-Length': String(body.length) };
    const all: Headers = {
      Host: 'pets.test',
      'X-Request-Id': id,
      Authorization: `Bearer ${this.apiKey}`,
      ...(body === '' ? {} : content),
      ...headers,
    };
    const lines = Object.entries(all).map(([name, value]) => (value === undefined ? '' : `${name}: ${value}\r\n`));
    return { bytes: `${method} ${target} HTTP/1.1\r\n${lines.join('')}\r\n${body}`, id, status };
  }
}

type Headers = Readonly<Record<string, string | undefined>>;

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
