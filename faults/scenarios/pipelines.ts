import { setTimeout as sleep } from 'node:timers/promises';
import { ask, Connection, ConnectionLost, requestBytes, type Answer } from '../../test/support/http-client.ts';
import type { Update } from '../exchange.ts';
import { SeededRandom } from '../seeded-random.ts';
import { atMost, SMALL_YOUNG_GENERATION, Stage, type Scenarios } from '../stage.ts';

const CLIENTS = 48;
const PETS_PER_CLIENT = 12;
const ANSWER_WITHIN_MS = 10_000;
/** The service may still apply an update this long after its connection was cut. */
const IN_DOUBT_MS = 4_000;
const ENDINGS = ['read', 'read', 'read', 'read', 'finish', 'destroy', 'reset', 'stall'] as const;

/** A request and the status of its only right answer. */
interface Request {
  readonly status: number;
  readonly method?: string;
  readonly target: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

const LIST = { status: 200, target: '/v1/inventory' };
const UPDATE = { status: 200, method: 'PATCH', target: '/v1/inventory/1', body: '{"quantity":1}' };

/** Requests that change nothing. */
const HARMLESS: readonly Request[] = [
  ...['{"quantity":-1}', '{"quantity":', '{}', 'null'].map((body) => ({ ...UPDATE, status: 400, body })),
  { ...UPDATE, status: 400, target: '/v1/inventory/abc' },
  { ...LIST, status: 401 },
  { ...UPDATE, status: 401, headers: { Authorization: 'Bearer wrong' } },
  { ...UPDATE, status: 404, target: '/v1/inventory/999999999' },
  ...['TRACE', 'DELETE', 'POST'].map((method) => ({ ...LIST, status: 405, method })),
  { ...UPDATE, status: 412, headers: { 'If-Match': '"available-0"' } },
  { ...UPDATE, status: 415, headers: { 'Content-Type': 'text/plain' } },
  { ...LIST, method: 'HEAD' },
  { status: 204, method: 'OPTIONS', target: '*' },
  ...['/docs', '/docs/swagger-ui-bundle.js', '/openapi.json'].map((target) => ({ status: 200, target })),
];

/** Requests with which the connection ends. */
const CLOSING: readonly Request[] = [
  { ...LIST, headers: { Connection: 'close' } },
  { status: 405, method: 'CONNECT', target: 'pets.test:80' },
  { ...UPDATE, status: 400, headers: { 'Transfer-Encoding': 'chunked' }, body: 'zz\r\n' },
  { ...UPDATE, status: 401, headers: { 'Content-Length': '100000' }, body: 'x' },
];
const GARBAGE = ['garbage\r\n\r\n', 'GET / HTTP/1.1\r\nbroken\r\n\r\n', '\0\x01\x02\r\n\r\n'];

/** A request of a pipeline, and what is known of its answer. */
interface Piece {
  readonly bytes: string;
  readonly status: number;
  readonly id?: string;
  readonly toHead?: boolean;
  /** `100 Continue` comes first. */
  readonly interim?: boolean;
  readonly closes?: boolean;
  readonly update?: Update;
  /** A part of the body. */
  readonly has?: string;
}

export const PIPELINES: Scenarios = {
  /** Pipelines of every method on many connections, some malformed or cut. The service answers each in order, one at a time. */
  'hostile-pipelines': async (world) => {
    await using stage = await Stage.open(world, {
      pets: CLIENTS * PETS_PER_CLIENT,
      services: 1,
      settings: { LOG_LEVEL: 'info', LOG_SUCCESS_EVERY: '1' },
      answerWithinMs: ANSWER_WITHIN_MS, // this is not about speed
      nodeOptions: SMALL_YOUNG_GENERATION,
    });
    const clients = Array.from({ length: CLIENTS }, (_, n) => new Client(stage, n));
    const run = async (pipelines: number) => {
      let begun = 0;
      const work = async (client: Client) => {
        while (begun++ < pipelines) await client.pipeline();
      };
      await Promise.all(clients.map(work));
      return quiet(stage);
    };
    const before = await run(world.size.pipelines / 5);
    const after = await run(world.size.pipelines);
    const figures = await stage.verdict();
    const requests = stage.service.lines().filter(({ msg }) => msg === 'request');
    const logged = new Set(requests.map(({ requestId }) => requestId));
    const answered = clients.flatMap((client) => client.answered);
    const wrong = clients.flatMap((client) => client.wrong);
    world.note(`${answered.length} answers`);
    for (const sentence of wrong.slice(0, 8)) world.note(sentence);
    return [
      ...figures,
      atMost('answers that are wrong, missing or not in order', wrong.length, 0),
      atMost('requests still under way', after.active, 0),
      atMost('descriptors grown', after.descriptors - before.descriptors, 5),
      atMost('memory grown', after.residentMb - before.residentMb, 50, 'MB'),
      atMost('answered requests that are not in the log', answered.filter((id) => !logged.has(id)).length, 0),
      atMost('requests that are in the log again', requests.length - logged.size, 0),
    ];
  },
};

/** Sends one pipeline after the other. No other client updates its pets, so it knows each answer beforehand. */
class Client {
  /** The ids of the requests that got an answer. */
  readonly answered: string[] = [];
  readonly wrong: string[] = [];
  private readonly stage: Stage;
  private readonly number: number;
  private readonly random: SeededRandom;
  /** From when on no earlier update of a pet can still take place. */
  private readonly certainFrom: Map<number, number>;

  constructor(stage: Stage, n: number) {
    this.stage = stage;
    this.number = n;
    this.random = new SeededRandom(stage.world.random.between(0, 2 ** 31));
    const petIds = stage.petIds.slice(n * PETS_PER_CLIENT, (n + 1) * PETS_PER_CLIENT);
    this.certainFrom = new Map(petIds.map((petId) => [petId, 0]));
  }

  async pipeline(): Promise<void> {
    const { random, stage } = this;
    const pieces = this.nextPieces();
    const last = pieces.findIndex(({ closes }) => closes);
    const due = last < 0 ? pieces : pieces.slice(0, last + 1);
    const ending = random.pick(ENDINGS);
    const isCut = ending !== 'read' && ending !== 'finish';
    const connection = await Connection.open(stage.service.port);
    let start = performance.now();
    let next = 0;
    const read = async () => {
      for (const piece of due) {
        const options = { toHead: piece.toHead ?? false, withinMs: ANSWER_WITHIN_MS };
        if (piece.interim) await connection.answer(options);
        this.judge(piece, start, await connection.answer(options));
        start = performance.now(); // the service has begun the next one by now
        next++;
      }
      if (isCut || (ending === 'read' && last < 0)) return;
      const more = await connection.closed({ withinMs: ANSWER_WITHIN_MS });
      if (more !== '') this.wrong.push(`behind the last answer came ${JSON.stringify(more.slice(0, 200))}`);
    };
    const reading = read().catch((error: unknown) => {
      if (!isCut) this.wrong.push(`${this.shown(due[next])} got no answer: ${String(error)}`);
    });
    if (ending === 'stall') connection.pause();
    const bytes = pieces.map((piece) => piece.bytes).join('');
    await this.send(connection, isCut ? bytes.slice(0, random.between(1, 2 * bytes.length)) : bytes);
    if (isCut) {
      await sleep(random.between(0, 15));
      if (ending === 'destroy') connection.destroy();
      else connection.reset();
    } else if (ending === 'finish') connection.finish();
    await reading;
    connection.destroy();
    for (const { update } of due.slice(next)) {
      if (!update) continue;
      this.note(update, start, new ConnectionLost('cut by the client'));
      this.certainFrom.set(update.petId, performance.now() + IN_DOUBT_MS);
    }
  }

  private nextPieces(): Piece[] {
    const { random } = this;
    const [petId] = [...this.certainFrom].find(([, from]) => from < performance.now()) ?? [];
    /** What a list has to have, once an update of this pipeline is before it. */
    let has: { has?: string } = {};
    return Array.from({ length: random.between(2, 7) }, (): Piece => {
      if (random.chance(0.01)) return { bytes: random.pick(GARBAGE), status: 400, closes: true };
      if (random.chance(0.08)) return { ...this.pieceOf(random.pick(CLOSING)), closes: true };
      if (random.chance(0.5)) return this.pieceOf(random.pick(HARMLESS));
      if (petId === undefined || random.chance(0.5)) return { ...this.pieceOf(LIST), ...has };
      const piece = this.updateOf(petId);
      has = piece.has === undefined ? {} : { has: piece.has };
      return piece;
    });
  }

  private updateOf(petId: number): Piece {
    const quantity = ++this.stage.quantities.last;
    const body = JSON.stringify({ quantity });
    const chunks = `5\r\n${body.slice(0, 5)}\r\n${(body.length - 5).toString(16)}\r\n${body.slice(5)}\r\n0\r\n\r\n`;
    const form = this.random.pick([
      { body },
      { body, headers: { Expect: '100-continue' } },
      { body: chunks, headers: { 'Transfer-Encoding': 'chunked' } },
    ]);
    return {
      ...this.pieceOf({ ...UPDATE, target: `/v1/inventory/${petId}`, ...form }, `q${quantity}`),
      interim: form.headers?.Expect !== undefined,
      update: { kind: 'update', petId, quantity },
      has: `{"petId":${petId},"quantity":${quantity},`,
    };
  }

  /** A request as it is sent: with the key, unless it is refused for want of one. */
  private pieceOf(request: Request, id = `r${++this.stage.quantities.last}`): Piece {
    const { status, headers, ...question } = request;
    const key = status === 401 ? {} : { Authorization: `Bearer ${this.stage.apiKey}` };
    const content = request.body === undefined ? {} : { 'Content-Type': 'application/json' };
    const bytes = requestBytes({ ...question, headers: { ...key, ...content, 'X-Request-Id': id, ...headers } });
    return { bytes: bytes.toString('latin1'), id, status, toHead: request.method === 'HEAD' };
  }

  private judge(piece: Piece, start: number, answer: Answer): void {
    const { id, status, update, has = '', closes } = piece;
    const { headers, text } = answer;
    const isRight =
      answer.status === status &&
      (id === undefined || headers['x-request-id'] === id) &&
      (!closes || headers['connection'] === 'close') &&
      (status < 400 || text.includes(`"status":${status}`)) &&
      text.includes(has);
    if (!isRight) {
      const shown = `${answer.status} ${JSON.stringify(headers)} ${text.slice(0, 200)}`;
      this.wrong.push(`${this.shown(piece)} (${status}, ${has}) was answered ${shown}`);
    }
    if (id !== undefined) this.answered.push(id);
    if (update) this.note(update, start, answer);
  }

  private note(operation: Update, start: number, outcome: Answer | ConnectionLost): void {
    // The client cuts its connections itself, as a kill -9 of the service would.
    const target = { name: 'service', port: this.stage.service.port, killedAt: Infinity };
    this.stage.record({
      target,
      client: this.number,
      operation,
      start,
      end: performance.now(),
      connectedAt: start,
      outcome,
    });
  }

  private shown(piece: Piece | undefined): string {
    return JSON.stringify(piece?.bytes.replaceAll(this.stage.apiKey, '…').slice(0, 120));
  }

  /** In a random number of packets. */
  private async send(connection: Connection, bytes: string): Promise<void> {
    for (let at = 0; at < bytes.length;) {
      const end = this.random.chance(0.5) ? bytes.length : this.random.between(at + 1, bytes.length);
      connection.send(bytes.slice(at, end));
      at = end;
      if (at < bytes.length) await sleep(this.random.between(0, 3));
    }
  }
}

/** What the service holds once no request is under way any more, or after 10 s. */
async function quiet({ service, apiKey }: Stage) {
  const metrics = { target: '/metrics', headers: { authorization: `Bearer ${apiKey}` } };
  let active = Infinity;
  for (const deadline = performance.now() + ANSWER_WITHIN_MS; active > 0 && performance.now() < deadline;) {
    await sleep(100);
    const { text } = await ask(service.port, metrics);
    active = Number(/^http_server_active_requests (\d+)$/m.exec(text)?.[1]) - 1; // without this one
  }
  await sleep(1_000); // descriptors and the log follow
  return { active, descriptors: service.openDescriptors(), residentMb: service.residentMb() };
}
