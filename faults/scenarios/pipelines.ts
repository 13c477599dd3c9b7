import { setTimeout as sleep } from 'node:timers/promises';
import { ask, Connection, ConnectionLost, type Answer } from '../../test/support/http-client.ts';
import type { Update } from '../exchange.ts';
import { nextPipeline, wrongAnswer, type Client, type Piece } from '../pipeline.ts';
import { SeededRandom } from '../seeded-random.ts';
import { atMost, SMALL_YOUNG_GENERATION, Stage, type Scenarios } from '../stage.ts';

const CLIENTS = 48;
const PETS_PER_CLIENT = 12;
const ANSWER_WITHIN_MS = 10_000;
/** So long after its connection was cut an update may still be applied. */
const IN_DOUBT_MS = 4_000;
const ENDINGS = ['read', 'read', 'read', 'read', 'finish', 'destroy', 'reset', 'stall'] as const;

export const PIPELINES: Scenarios = {
  /** Pipelines of every method, some of them malformed or cut, on many connections: answered in order, one at a time. */
  'hostile-pipelines': async (world) => {
    const { pipelines } = world.size;
    const settings = { LOG_LEVEL: 'info', LOG_SUCCESS_EVERY: '1' };
    const answerWithinMs = ANSWER_WITHIN_MS; // this is not about speed
    await using stage = await Stage.open(world, {
      pets: CLIENTS * PETS_PER_CLIENT,
      services: 1,
      settings,
      answerWithinMs,
      nodeOptions: SMALL_YOUNG_GENERATION,
    });
    const attack = new Attack(stage);
    await attack.run(pipelines / 5);
    const before = await quiet(stage);
    await attack.run(pipelines);
    const after = await quiet(stage);
    const figures = await stage.verdict();
    const requests = stage.service.lines().filter(({ msg }) => msg === 'request');
    const logged = new Set(requests.map(({ requestId }) => requestId));
    world.note(`${attack.answered.length} answers, ${attack.cut} pipelines cut`);
    for (const sentence of attack.wrong.slice(0, 8)) world.note(sentence);
    return [
      ...figures,
      atMost('answers that are wrong, missing or not in order', attack.wrong.length, 0),
      atMost('requests still under way', after.active, 0),
      atMost('descriptors grown', after.descriptors - before.descriptors, 5),
      atMost('memory grown', after.residentMb - before.residentMb, 50, 'MB'),
      atMost('answered requests that are not in the log', attack.answered.filter((id) => !logged.has(id)).length, 0),
      atMost('requests that are in the log again', requests.length - logged.size, 0),
    ];
  },
};

/** Clients that send pipelines and judge what comes. */
class Attack {
  readonly wrong: string[] = [];
  /** The ids of the requests that got an answer. */
  readonly answered: string[] = [];
  cut = 0;
  private readonly clients: readonly Client[];
  private readonly stage: Stage;

  constructor(stage: Stage) {
    this.stage = stage;
    const quantities = { last: stage.petIds.length };
    this.clients = Array.from({ length: CLIENTS }, (_, n) => {
      const petIds = stage.petIds.slice(n * PETS_PER_CLIENT, (n + 1) * PETS_PER_CLIENT);
      return {
        apiKey: stage.apiKey,
        random: new SeededRandom(stage.world.random.between(0, 2 ** 31)),
        quantities,
        held: new Map(petIds.map((petId) => [petId, petId])),
        inDoubt: new Map(),
      };
    });
  }

  /** Resolves when so many pipelines are through. */
  async run(count: number): Promise<void> {
    let begun = 0;
    const work = async (client: Client) => {
      while (begun++ < count) await this.pipeline(client);
    };
    await Promise.all(this.clients.map(work));
  }

  private async pipeline(client: Client): Promise<void> {
    const { random, held } = client;
    await this.learn(client);
    const pieces = nextPipeline(client);
    const last = pieces.findIndex(({ closes }) => closes);
    const due = last < 0 ? pieces : pieces.slice(0, last + 1);
    const ending = random.pick(ENDINGS);
    const isCut = ending !== 'read' && ending !== 'finish';
    const connection = await Connection.open(this.stage.service.port);
    let start = performance.now();
    let next = 0;
    const read = async () => {
      for (const piece of due) {
        const options = { toHead: piece.toHead ?? false, withinMs: ANSWER_WITHIN_MS };
        if (piece.interim) await connection.answer(options);
        this.judge(client, piece, start, await connection.answer(options));
        start = performance.now(); // when the turn of the next one has come for certain
        next++;
      }
      if (isCut || (ending === 'read' && !due.at(-1)?.closes)) return;
      const more = await connection.closed({ withinMs: ANSWER_WITHIN_MS });
      if (more !== '') this.wrong.push(`behind the last answer came ${JSON.stringify(more.slice(0, 200))}`);
    };
    const reading = read().catch((error: unknown) => {
      if (!isCut) this.wrong.push(`${this.shown(due[next])} got no answer: ${String(error)}`);
    });
    if (ending === 'stall') connection.pause();
    const bytes = pieces.map((piece) => piece.bytes).join('');
    await send(connection, random, isCut ? bytes.slice(0, random.between(1, 2 * bytes.length)) : bytes);
    if (isCut) {
      this.cut++;
      await sleep(random.between(0, 15));
      if (ending === 'destroy') connection.destroy();
      else connection.reset();
    } else if (ending === 'finish') connection.finish();
    await reading;
    connection.destroy();
    for (const { update } of due.slice(next)) {
      if (!update) continue;
      this.note(update, start, new ConnectionLost('cut by the client'));
      held.delete(update.petId);
      client.inDoubt.set(update.petId, performance.now() + IN_DOUBT_MS);
    }
  }

  private judge(client: Client, piece: Piece, start: number, answer: Answer): void {
    const { id, update } = piece;
    const fault = wrongAnswer(piece, answer);
    if (fault !== undefined) this.wrong.push(`the answer to ${this.shown(piece)} ${fault}`);
    if (id !== undefined) this.answered.push(id);
    if (!update) return;
    this.note(update, start, answer);
    if (answer.status === 200) client.held.set(update.petId, update.quantity);
  }

  private note(operation: Update, start: number, outcome: Answer | ConnectionLost): void {
    // These clients cut their connections themselves, as a kill -9 would.
    const target = { name: 'service', port: this.stage.service.port, killedAt: Infinity };
    this.stage.evidence.add({ target, operation, start, end: performance.now(), connectedAt: start, outcome });
  }

  /** What became of updates whose answer was not waited for, once it is certain. */
  private async learn({ held, inDoubt }: Client): Promise<void> {
    const certain = [...inDoubt].filter(([, until]) => until < performance.now()).map(([petId]) => petId);
    if (certain.length === 0) return;
    const rows = await this.stage.database.sql<{ pet_id: string; quantity: number }>(
      `SELECT pet_id, quantity FROM inventory_item WHERE pet_id IN (${certain.join()})`,
    );
    for (const { pet_id, quantity } of rows) {
      held.set(Number(pet_id), quantity);
      inDoubt.delete(Number(pet_id));
    }
  }

  private shown(piece: Piece | undefined): string {
    return JSON.stringify(piece?.bytes.replaceAll(this.stage.apiKey, '…').slice(0, 120));
  }
}

/** In as many packets as chance will have it. */
async function send(connection: Connection, random: SeededRandom, bytes: string): Promise<void> {
  for (let at = 0; at < bytes.length;) {
    const end = random.chance(0.5) ? bytes.length : random.between(at + 1, bytes.length);
    connection.send(bytes.slice(at, end));
    at = end;
    if (at < bytes.length) await sleep(random.between(0, 3));
  }
}

/** What the service holds once nothing is under way any more, or has not got there in time. */
async function quiet({ service, apiKey }: Stage) {
  const metrics = { target: '/metrics', headers: { authorization: `Bearer ${apiKey}` } };
  let active = Infinity;
  for (const deadline = performance.now() + ANSWER_WITHIN_MS; active > 0 && performance.now() < deadline;) {
    await sleep(100);
    const { text } = await ask(service.port, metrics);
    active = Number(/^http_server_active_requests (\d+)$/m.exec(text)?.[1]) - 1; // but for this one
  }
  await sleep(1_000); // descriptors and the log follow
  return { active, descriptors: service.openDescriptors(), residentMb: service.residentMb() };
}
