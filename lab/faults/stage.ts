import { randomBytes } from 'node:crypto';
import type { FaultyPostgres } from '../../test/support/postgres-server.ts';
import { createDatabaseOn, type Database } from '../../test/support/database.ts';
import { ServiceProcess } from '../../test/support/service-process.ts';
import { Evidence } from './evidence.ts';
import type { Exchange } from './exchange.ts';
import { fillStock, readFinalState } from './final-state.ts';
import { History } from './history.ts';
import { Linearizability } from './linearizability.ts';
import { Load, type LoadOptions, type Quantities } from './load.ts';
import { succeeded } from './measures.ts';
import { SeededRandom } from '../../test/support/seeded-random.ts';
import type { Size } from './size.ts';
import { TcpProxy } from '../../test/support/tcp-proxy.ts';

/** A scenario gets the one PostgreSQL server of the run, its random choices, and how much to do. */
export interface World {
  readonly postgres: FaultyPostgres;
  readonly random: SeededRandom;
  readonly size: Size;
  /** The scenario's name. */
  readonly name: string;
  /** Each stage adds its operations to this file, if there is one. */
  readonly historyFile: string | undefined;
  /** Porcupine decides whether that file is linearizable, so `Linearizability` does not. */
  readonly isForPorcupine: boolean;
  /** Adds a line to the report. */
  note(line: string): void;
}

/** A line of the report: a measured value and its bound. */
export interface Figure {
  readonly what: string;
  readonly measured: string;
  readonly bound: string;
  readonly isKept: boolean;
}

export type Scenarios = Readonly<Record<string, (world: World) => Promise<Figure[]>>>;

export interface StageOptions {
  readonly pets?: number;
  readonly services?: number;
  /** With a proxy between each service and PostgreSQL. */
  readonly proxied?: boolean;
  /** More environment variables of the services. */
  readonly settings?: Readonly<Record<string, string>>;
}

const HOPELESS_AFTER_MS = 10_000;
const UNCAUGHT = /"msg":"(uncaughtException|unhandledRejection)"/g;

/** Service processes on a store of their own, and the evidence of what they answer. */
export class Stage {
  readonly world: World;
  readonly database: Database;
  readonly services: ServiceProcess[] = [];
  readonly proxies: TcpProxy[] = [];
  readonly evidence: Evidence;
  readonly history: History | undefined;
  readonly petIds: readonly number[];
  readonly apiKey = randomBytes(24).toString('hex');
  /** Updates of unknown outcome that did take place. The verdict sets it. */
  appliedUnknown = 0;
  private readonly loads: Load[] = [];
  readonly quantities: Quantities;
  private clients = 0;
  private slowestRecoveryMs = 0;
  private readonly ends = new AsyncDisposableStack();

  private constructor(world: World, database: Database, stock: ReadonlyMap<number, number>) {
    this.world = world;
    this.database = database;
    this.petIds = [...stock.keys()];
    this.quantities = { last: this.petIds.at(-1) ?? 0 };
    const { historyFile, isForPorcupine, name } = world;
    this.evidence = new Evidence(
      stock,
      world.size.answerWithinMs,
      isForPorcupine ? undefined : new Linearizability(stock),
    );
    this.history = historyFile === undefined ? undefined : new History(historyFile, name, stock);
  }

  /** By default, two services, ready, on 100 pets. */
  static async open(world: World, options: StageOptions = {}): Promise<Stage> {
    const { pets = 100, services = 2, proxied = false, settings } = options;
    const database = await createDatabaseOn(world.postgres.url);
    const stock = await fillStock(database, pets);
    const stage = new Stage(world, database, stock);
    try {
      for (let n = 1; n <= services; n++) {
        const url = new URL(database.url);
        if (proxied) {
          const proxy = new TcpProxy(world.postgres.url);
          stage.defer(() => proxy.close());
          stage.proxies.push(proxy);
          url.port = new URL(await proxy.listen()).port;
        }
        const needed = { LOG_LEVEL: 'error', DATABASE_URL: url.href, BOOTSTRAP_API_KEY: stage.apiKey };
        const service = await ServiceProcess.onFreePort({ ...needed, ...settings }, { name: `service ${n}` });
        stage.defer(() => service.kill());
        stage.services.push(service);
        service.start();
      }
      await Promise.all(stage.services.map((service) => service.becomesReady()));
      return stage;
    } catch (error) {
      await stage[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Registers a step for the end of the stage. The last step is done first. */
  defer(end: () => unknown): void {
    this.ends.defer(async () => {
      await end();
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.ends.disposeAsync();
  }

  /** The first service, which no fault kills. */
  get service(): ServiceProcess {
    const [first] = this.services;
    if (!first) throw new RangeError('no service');
    return first;
  }

  /** Workers that begin at once, and whose exchanges become evidence. */
  startLoad(options: Partial<LoadOptions> = {}): Load {
    // The load has its own random choices: the number of its requests must not change which faults come next.
    const random = new SeededRandom(this.world.random.between(0, 2 ** 31));
    const { services: targets, apiKey, quantities, petIds } = this;
    const settings = { targets, apiKey, quantities, random, workers: 64, petIds, ...options };
    const load = new Load(settings);
    const clientsBefore = this.clients;
    this.clients += settings.workers;
    load.onExchange((exchange) => {
      const numbered = { ...exchange, client: clientsBefore + exchange.client };
      this.evidence.add(numbered);
      this.history?.add(numbered);
    });
    this.loads.push(load);
    this.defer(() => load.stop());
    load.start();
    return load;
  }

  /** How long it takes until every service has served a list and an update; infinite after 10 s. */
  async recovery(): Promise<number> {
    const since = performance.now();
    const missing = new Set(this.services.flatMap(({ name }) => [`${name} list`, `${name} update`]));
    const tookMs = await new Promise<number>((resolve) => {
      const note = (exchange: Exchange) => {
        if (exchange.start < since || !succeeded(exchange)) return;
        missing.delete(`${exchange.target.name} ${exchange.operation.kind}`);
        if (missing.size === 0) resolve(exchange.end - since);
      };
      for (const load of this.loads) load.onExchange(note);
      setTimeout(resolve, HOPELESS_AFTER_MS, Infinity).unref();
    });
    this.slowestRecoveryMs = Math.max(this.slowestRecoveryMs, tookMs);
    return tookMs;
  }

  /** Ends every load and judges the whole run. PostgreSQL has to answer. */
  async verdict(): Promise<Figure[]> {
    await Promise.all(this.loads.map((load) => load.stop()));
    const { evidence, services, world } = this;
    const state = await readFinalState(this.database);
    evidence.conclude(state);
    this.history?.conclude(state);
    this.appliedUnknown = evidence.appliedUnknown(state);
    world.note(evidence.summary);
    for (const example of evidence.examples) world.note(example);
    return [
      atMost('violations', evidence.violations, 0),
      atMost('acknowledged updates lost', evidence.violationsWith('lost update'), 0),
      atMost('answers 500', evidence.answered('500 internal_error'), 0),
      atMost('uncaught errors', services.flatMap(({ log }) => log.match(UNCAUGHT) ?? []).length, 0),
      atMost('services that ended', services.filter((service) => !service.isRunning).length, 0),
      atMost('slowest answer', evidence.slowestMs, evidence.answerWithinMs, 'ms'),
      atMost('slowest recovery from a fault', this.slowestRecoveryMs, world.size.recoveryWithinMs, 'ms'),
    ];
  }
}

export function atMost(what: string, measured: number, bound: number, unit = ''): Figure {
  return { what, measured: shown(measured, unit), bound: `≤ ${shown(bound, unit)}`, isKept: measured <= bound };
}

export function atLeast(what: string, measured: number, bound: number, unit = ''): Figure {
  return { what, measured: shown(measured, unit), bound: `≥ ${shown(bound, unit)}`, isKept: measured >= bound };
}

function shown(value: number, unit: string): string {
  const digits = Number.isInteger(value) ? 0 : Math.abs(value) < 10 ? 2 : 0;
  return `${value.toFixed(digits)}${unit && ` ${unit}`}`;
}
