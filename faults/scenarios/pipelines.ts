import { setTimeout as sleep } from 'node:timers/promises';
import { Connection, ConnectionLost, type Answer } from '../../test/support/http-client.ts';
import type { Exchange } from '../exchange.ts';
import { Pipelines, wrongAnswer, type Piece } from '../pipeline.ts';
import { SeededRandom } from '../seeded-random.ts';
import type { ServiceProcess } from '../../test/support/service-process.ts';
import { atLeast, atMost, madeWrong, Stage, type Figure, type World } from '../stage.ts';

const CLIENTS = 48;
const PETS_PER_CLIENT = 12;
const ANSWER_WITHIN_MS = 10_000;
/** So long after its connection was cut an update may still be applied. */
const IN_DOUBT_MS = 4_000;
const ENDINGS = ['read', 'read', 'read', 'read', 'finish', 'destroy', 'reset', 'stall'] as const;

/** Pipelines of every method, some of them malformed or cut, on many connections: answered in order, one at a time. */
export async function hostilePipelines(world: World): Promise<Figure[]> {
  const settings = { LOG_LEVEL: 'info', LOG_SUCCESS_EVERY: '1' };
  const patient = { ...world, size: { ...world.size, answerWithinMs: ANSWER_WITHIN_MS } }; // this is not about speed
  await using stage = await Stage.open(patient, { pets: CLIENTS * PETS_PER_CLIENT, services: 1, settings });
  const [service] = stage.services;
  if (!service) throw new RangeError('a service is needed');
  const attack = new Attack(stage);
  await attack.run(world.size.pipelines / 5);
  const before = await quiet(stage, service);
  await attack.run(world.size.pipelines);
  const after = await quiet(stage, service);
  const { figures } = await stage.verdict();
  const logged = Map.groupBy(
    service.lines().filter(({ msg }) => msg === 'request'),
    (line) => line['requestId'],
  );
  const twice = [...logged.values()].filter((lines) => lines.length > 1).length;
  const unlogged = attack.answered.filter((id) => !logged.has(id)).length;
  world.note(`${attack.answered.length} answers, ${attack.pipelines} pipelines, ${attack.cut} of them cut`);
  for (const sentence of attack.wrong.slice(0, 8)) world.note(sentence);
  for (const [name, seen] of Object.entries({ before, after })) world.note(`${name}: ${JSON.stringify(seen)}`);
  return [
    ...figures,
    atLeast('pipelines', attack.pipelines, world.size.pipelines),
    atMost('answers that are wrong, missing or not in order', attack.wrong.length, 0),
    atMost('requests still under way', after.active, 0),
    atMost('descriptors grown', after.descriptors - before.descriptors, 5),
    atMost('memory grown', after.residentMb - before.residentMb, 50, 'MB'),
    atMost('answered requests that are not in the log', unlogged, 0),
    atMost('requests that are in the log twice', twice, 0),
  ];
}

/** A control: a service that serves the requests of a connection beside each other. */
export async function parallelPipelinesControl(world: World): Promise<Figure[]> {
  const settings = madeWrong('http/request-turns.js', 'if (response.socket && isFirstOfRead(socket)) {', 'if (true) {');
  await using stage = await Stage.open(world, { pets: CLIENTS * PETS_PER_CLIENT, services: 1, settings });
  const attack = new Attack(stage);
  await attack.run(world.size.pipelines / 5);
  const missed = attack.wrong.filter((sentence) => sentence.includes(' lacks '));
  return [atLeast('lists found that miss an update before them', missed.length, 1)];
}

/** Clients that send pipelines, and judge what comes. */
class Attack {
  readonly wrong: string[] = [];
  /** The ids of the requests that got an answer. */
  readonly answered: string[] = [];
  pipelines = 0;
  cut = 0;
  private readonly clients: Client[] = [];
  private readonly stage: Stage;
  private readonly port: number;

  constructor(stage: Stage) {
    this.stage = stage;
    this.port = stage.services[0]?.port ?? 0;
    const quantities = { last: stage.petIds.length };
    for (let n = 0; n < CLIENTS; n++) {
      const random = new SeededRandom(stage.world.random.between(0, 2 ** 31));
      const petIds = stage.petIds.slice(n * PETS_PER_CLIENT, (n + 1) * PETS_PER_CLIENT);
      this.clients.push({
        random,
        pipelines: new Pipelines(`c${n}`, stage.apiKey, quantities, random),
        held: new Map(petIds.map((petId) => [petId, petId])),
        inDoubt: new Map(),
      });
    }
  }

  /** Resolves when so many more pipelines are through. */
  async run(count: number): Promise<void> {
    const enough = this.pipelines + count;
    const work = async (client: Client) => {
      while (this.pipelines < enough) {
        this.pipelines++;
        await this.pipeline(client);
      }
    };
    await Promise.all(this.clients.map(work));
  }

  private async pipeline(client: Client): Promise<void> {
    const { random, held } = client;
    await this.learn(client);
    const pieces = client.pipelines.next(held);
    const last = pieces.findIndex(({ closes }) => closes);
    const due = last < 0 ? pieces : pieces.slice(0, last + 1);
    const ending = random.pick(ENDINGS);
    const isCut = ending !== 'read' && ending !== 'finish';
    const connection = await Connection.open(this.port);
    let start = performance.now();
    let next = 0;
    const read = async () => {
      for (const piece of due) {
        if (piece.interim) await connection.answer({ withinMs: ANSWER_WITHIN_MS });
        this.judge(
          client,
          piece,
          start,
          await connection.answer({ toHead: piece.toHead ?? false, withinMs: ANSWER_WITHIN_MS }),
        );
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
    await this.send(connection, random, isCut ? bytes.slice(0, random.between(1, 2 * bytes.length)) : bytes);
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
      this.note({ operation: update, start, outcome: new ConnectionLost('cut by the client') });
      held.delete(update.petId);
      client.inDoubt.set(update.petId, performance.now() + IN_DOUBT_MS);
    }
  }

  /** In as many packets as chance will have it. */
  private async send(connection: Connection, random: SeededRandom, bytes: string): Promise<void> {
    for (let at = 0; at < bytes.length;) {
      const end = random.chance(0.5) ? bytes.length : random.between(at + 1, bytes.length);
      connection.send(bytes.slice(at, end));
      at = end;
      if (at < bytes.length) await sleep(random.between(0, 3));
    }
  }

  private judge(client: Client, piece: Piece, start: number, answer: Answer): void {
    const fault = wrongAnswer(piece, answer);
    if (fault !== undefined) this.wrong.push(`the answer to ${this.shown(piece)} ${fault}`);
    if (piece.id !== undefined) this.answered.push(piece.id);
    const { update } = piece;
    if (!update) return;
    this.note({ operation: update, start, outcome: answer });
    if (answer.status === 200) client.held.set(update.petId, update.quantity);
  }

  private note({ operation, start, outcome }: Pick<Exchange, 'operation' | 'start' | 'outcome'>): void {
    // These clients cut their connections themselves, as a kill -9 would.
    const target = { name: 'service', port: this.port, killedAt: Infinity };
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

interface Client {
  readonly random: SeededRandom;
  readonly pipelines: Pipelines;
  /** What its pets hold, as far as it knows. */
  readonly held: Map<number, number>;
  /** Its other pets, and when it is certain what they hold. */
  readonly inDoubt: Map<number, number>;
}

/** What the service holds once nothing is under way any more, or has not got there in time. */
async function quiet(stage: Stage, service: ServiceProcess) {
  const connection = await Connection.open(service.port);
  const headers = { authorization: `Bearer ${stage.apiKey}` };
  try {
    const deadline = performance.now() + ANSWER_WITHIN_MS;
    for (;;) {
      await sleep(100);
      const { text } = await connection.request({ target: '/metrics', headers });
      const active = Number(/^http_server_active_requests (\d+)$/m.exec(text)?.[1]) - 1; // but for this one
      if (active > 0 && performance.now() < deadline) continue;
      await sleep(1_000); // descriptors and the log follow
      return { active, descriptors: service.openDescriptors(), residentMb: service.residentMb() };
    }
  } finally {
    connection.destroy();
  }
}
