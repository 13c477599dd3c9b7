import { setTimeout as sleep } from 'node:timers/promises';
import {
  ConnectionLost,
  Connection,
  NotConnected,
  type Answer,
  type Question,
} from '../../test/support/http-client.ts';
import type { Exchange, KnownList, List, Target, Update } from './exchange.ts';
import { succeeded } from './measures.ts';
import type { SeededRandom } from '../../test/support/seeded-random.ts';

export interface LoadOptions {
  readonly targets: readonly Target[];
  readonly apiKey: string;
  readonly quantities: Quantities;
  readonly random: SeededRandom;
  readonly workers: number;
  readonly petIds: readonly number[];
  /** The share of updates among the requests, 0 to 1. Default 0.6. */
  readonly updateShare?: number;
  /** The pause of a worker between a response and its next request. Default: none. */
  readonly thinkTimeMs?: number;
  /** The share of the updates with `If-Match`, 0 to 1. Default 0.1. */
  readonly conditionalShare?: number;
  /**
   * All workers begin at the first target and stay until the service closes their connection. Otherwise they take
   * turns.
   */
  readonly together?: boolean;
  /**
   * The share of the updates with an `Idempotency-Key`, 0 to 1. Default 0. Workers repeat them until they are answered,
   * even after `stop`.
   */
  readonly keyedShare?: number;
  /** The share of the responses to these that a worker takes for lost, 0 to 1. Default 0. */
  readonly missedShare?: number;
}

const GIVE_UP_MS = 15_000;

/** The probability of a new connection after a request, so that a returning process gets its share again. */
const MOVING_ON = 0.01;
const REPEATED_ELSEWHERE = 0.5;

/** Counts up through a run, so that no quantity is sent twice. */
export interface Quantities {
  last: number;
}

/** Workers that send one request after the other, each on a keep-alive connection of its own. */
export class Load {
  private running = false;
  private workers: Promise<void>[] = [];
  private readonly listeners: ((exchange: Exchange) => void)[] = [];
  /** Answered 200 or 304. */
  served = 0;
  unserved = 0;
  /** Allowed while a service is down: nothing was sent. */
  refusedConnections = 0;
  /** Idle connections that ended without announcement: a request on them would have failed. */
  unannouncedCloses = 0;

  private readonly options: LoadOptions;

  constructor(options: LoadOptions) {
    this.options = options;
  }

  onExchange(listener: (exchange: Exchange) => void): void {
    this.listeners.push(listener);
  }

  start(): void {
    this.running = true;
    this.workers = Array.from({ length: this.options.workers }, (_, index) => this.work(index));
  }

  /** Waits for every request in flight. */
  async stop(): Promise<void> {
    this.running = false;
    await Promise.all(this.workers);
  }

  private async work(index: number): Promise<void> {
    const { targets, random, missedShare = 0 } = this.options;
    let turn = this.options.together ? 0 : index;
    let connection: Connection | undefined;
    let connectedAt = 0;
    let known: KnownList | undefined;
    const seen = new Map<number, number>();
    let unanswered: { readonly operation: Update; readonly since: number } | undefined;
    while (this.running || unanswered) {
      const target = targets[turn % targets.length];
      if (!target) throw new RangeError('no target');
      if (!connection?.reusable) {
        if (connection?.closedUnannounced) this.unannouncedCloses++;
        connection?.destroy();
        connectedAt = performance.now();
        connection = await Connection.open(target.port).catch(() => undefined);
        if (!connection) {
          this.refusedConnections++;
          turn++;
          await sleep(5);
          continue;
        }
      }
      const operation = unanswered?.operation ?? this.choose(known, seen);
      const start = performance.now();
      const outcome = await connection.request(this.request(operation), { withinMs: GIVE_UP_MS }).catch(asOutcome);
      const end = performance.now();
      if (outcome instanceof Error) connection.destroy();
      if (outcome instanceof NotConnected) continue; // the service closed it just before the request
      const since = unanswered?.since ?? start;
      const repeats = operation.kind === 'update' && operation.key !== undefined;
      const isUnserved = outcome instanceof Error || outcome.status === 503;
      const again = isUnserved || (repeats && random.chance(missedShare));
      unanswered = repeats && again ? { operation, since } : undefined;
      const exchange = { target, client: index, operation, start, end, connectedAt, outcome };
      if (succeeded(exchange)) this.served++;
      else this.unserved++;
      for (const listener of this.listeners) listener(repeats ? { ...exchange, repeated: { since, again } } : exchange);
      const movesOn = unanswered ? REPEATED_ELSEWHERE : MOVING_ON;
      if (!this.options.together && random.chance(movesOn)) connection.destroy();
      if (!connection.reusable) turn++; // like a balancer, which gives the next connection to the next process
      if (again) await sleep(random.between(2, 10));
      else if (operation.kind === 'update') remember(seen, operation, outcome);
      else if (outcome.status === 200) known = { etag: outcome.headers['etag'] ?? '', body: outcome.text };
      if (this.options.thinkTimeMs) await sleep(this.options.thinkTimeMs);
    }
    connection?.destroy();
  }

  private choose(known: KnownList | undefined, seen: ReadonlyMap<number, number>): Update | List {
    const { random, quantities, petIds } = this.options;
    const { updateShare = 0.6, conditionalShare = 0.1, keyedShare = 0 } = this.options;
    if (!random.chance(updateShare)) {
      return known && random.chance(0.5) ? { kind: 'list', known } : { kind: 'list' };
    }
    const petId = random.pick(petIds);
    const expected = seen.get(petId);
    const quantity = ++quantities.last;
    const isConditional = expected !== undefined && random.chance(conditionalShare);
    const key = random.chance(keyedShare) ? { key: `q${quantity}` } : {};
    return { kind: 'update', petId, quantity, ...(isConditional && { expected }), ...key };
  }

  private request(operation: Update | List): Question {
    const authorization = `Bearer ${this.options.apiKey}`;
    if (operation.kind === 'list') {
      const condition = operation.known ? { 'if-none-match': operation.known.etag } : {};
      return { target: '/v1/inventory', headers: { authorization, ...condition } };
    }
    const { petId, quantity, expected, key } = operation;
    const headers = {
      authorization,
      'content-type': 'application/json',
      'x-request-id': `q${quantity}`,
      ...(expected !== undefined && { 'if-match': `"available-${expected}"` }),
      ...(key !== undefined && { 'idempotency-key': key }),
    };
    return { method: 'PATCH', target: `/v1/inventory/${petId}`, headers, body: JSON.stringify({ quantity }) };
  }
}

/** The end of a connection is an outcome. Any other error is a fault of the test. */
function asOutcome(error: unknown): ConnectionLost | NotConnected {
  if (error instanceof ConnectionLost || error instanceof NotConnected) return error;
  throw error;
}

/** Keeps the quantity that the entity tag names, for the next `If-Match`. */
function remember(seen: Map<number, number>, update: Update, answer: Answer): void {
  const quantity = Number(/^"available-(\d+)"$/.exec(answer.headers['etag'] ?? '')?.[1]);
  if (!Number.isNaN(quantity)) seen.set(update.petId, quantity);
}
