import { createRequire } from 'node:module';
import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client';
import { AUTH_FAILURES } from '../http/api-request.js';
import { PrismaService } from '../database/prisma.service.js';
import { type BatchEnd, batchEnds } from '../database/batcher.js';
import { ERRORS } from '../errors/error-code.js';
import { ListCache } from '../inventory/list-cache.js';
import { QuantityUpdates } from '../inventory/quantity-updates.js';
import { Log } from './log.js';

/** Seconds. Finer below 5 ms than is usual, for that is where this service's answers are. */
const DURATIONS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const BATCH_SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

const METHODS = new Set(['GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT', 'DELETE', 'TRACE', 'CONNECT']);
const OTHER_METHOD = '_OTHER';

const { version } = createRequire(import.meta.url)('../../package.json') as { version: string };

interface Observer {
  observe(value: number): void;
}

/** What Prometheus reads. Labels have values from closed lists only, so the number of series is bounded. */
@Injectable()
export class Metrics implements OnApplicationShutdown {
  readonly #registry = new Registry();
  readonly #observers = new Map<string, Observer>();
  readonly #expected = new Set<string>();
  readonly #trips = new Map<string, { size: Observer; duration: Observer }>();
  /** Requests whose answer has not ended yet. */
  activeRequests = 0;

  readonly #durations = this.#histogram(
    'http_server_request_duration_seconds',
    'From the head of a request to the end of its answer; status 499 when the connection broke before.',
    ['method', 'route', 'status'],
    DURATIONS,
  );
  readonly #malformed = this.#counter(
    'http_server_malformed_requests_total',
    'Requests that Node.js refused before there was a request; they are in no other metric.',
    ['code'],
  );
  readonly #errors = this.#counter('inventory_errors_total', 'Answers with an Error body, by its code.', ['code']);
  readonly #unauthorized = this.#counter(
    'inventory_unauthorized_total',
    'Requests that were not let in, by what was wrong with their key.',
    ['reason'],
  );
  readonly #tripDurations = this.#histogram(
    'inventory_round_trip_duration_seconds',
    'Shared round trips to the database, failed ones included.',
    ['trip'],
    DURATIONS,
  );
  readonly #tripSizes = this.#histogram(
    'inventory_round_trip_batch_size',
    'Requests that were served by one round trip.',
    ['trip'],
    BATCH_SIZES,
  );
  readonly #tripFailures = this.#counter('inventory_round_trip_failures_total', 'Round trips that failed.', ['trip']);

  constructor({ pool }: PrismaService, list: ListCache, updates: QuantityUpdates, log: Log) {
    collectDefaultMetrics({ register: this.#registry });
    this.#gauge('http_server_active_requests', 'Requests under way.', () => this.activeRequests);
    this.#total('inventory_list_readings_total', 'Times the whole stock was read.', () => list.readings);
    this.#total('inventory_list_patches_total', 'Times only its changes were read.', () => list.patches);
    this.#total('inventory_list_reuses_total', 'Requests that the kept list answered.', () => list.reuses);
    this.#gauge('inventory_list_bytes', 'Length of the last list, not compressed.', () => list.bytes);
    this.#gauge(
      'inventory_database_pool_busy',
      'Connections of the pool in use.',
      () => pool.totalCount - pool.idleCount,
    );
    this.#gauge('inventory_database_pool_idle', 'Connections of the pool not in use.', () => pool.idleCount);
    this.#gauge('inventory_database_pool_waiting', 'Calls that wait for the pool.', () => pool.waitingCount);
    this.#gauge(
      'inventory_held_commits',
      'Commits given up that still wait for a synchronous standby, of all processes, when this one last looked.',
      () => updates.heldCommits,
    );
    this.#total('inventory_log_lines_dropped_total', 'Log lines lost as nobody read them.', () => log.dropped);
    new Gauge({ name: 'inventory_build_info', help: 'Always 1.', labelNames: ['version'], registers: [this.#registry] })
      .labels(version)
      .set(1);
    // From the start, so that the first one is a rise.
    for (const code of Object.keys(ERRORS))
      for (const counter of [this.#errors, this.#malformed]) counter.labels(code).inc(0);
    for (const reason of AUTH_FAILURES) this.#unauthorized.labels(reason).inc(0);
    batchEnds.subscribe(this.#tripEnded);
  }

  /** The exposition format of Prometheus, with its media type. */
  async exposition(): Promise<{ type: string; text: string }> {
    return { type: this.#registry.contentType, text: await this.#registry.metrics() };
  }

  requestEnded(method: string, route: string, status: number, seconds: number): void {
    const series = `${status} ${method} ${route}`;
    let observer = this.#observers.get(series);
    if (!observer) {
      const known = METHODS.has(method) ? method : OTHER_METHOD;
      this.#observers.set(series, (observer = this.#durations.labels(known, route, String(status))));
      this.#expectFailures(known, route);
    }
    observer.observe(seconds);
  }

  /** A series that begins with its first failure would hide it: Prometheus sees rises, not beginnings. */
  #expectFailures(method: string, route: string): void {
    const key = `${method} ${route}`;
    if (this.#expected.has(key)) return;
    this.#expected.add(key);
    for (const status of ['500', '503']) this.#durations.zero({ method, route, status });
  }

  /** @param reason why the request was not let in, where that is what was wrong with it */
  requestFailed(code: string | undefined, reason: string | undefined): void {
    if (code !== undefined) this.#errors.labels(code).inc();
    if (reason !== undefined) this.#unauthorized.labels(reason).inc();
  }

  requestMalformed(code: string): void {
    this.#malformed.labels(code).inc();
  }

  onApplicationShutdown(): void {
    batchEnds.unsubscribe(this.#tripEnded);
  }

  readonly #tripEnded = (message: unknown): void => {
    const { name: trip, calls, durationMs, failed } = message as BatchEnd;
    let observers = this.#trips.get(trip);
    if (!observers) {
      this.#tripFailures.labels(trip).inc(0);
      observers = { size: this.#tripSizes.labels(trip), duration: this.#tripDurations.labels(trip) };
      this.#trips.set(trip, observers);
    }
    observers.size.observe(calls);
    observers.duration.observe(durationMs / 1_000);
    if (failed) this.#tripFailures.labels(trip).inc();
  };

  #histogram(name: string, help: string, labelNames: string[], buckets: number[]): Histogram {
    return new Histogram({ name, help, labelNames, buckets, registers: [this.#registry] });
  }

  #counter(name: string, help: string, labelNames: string[]): Counter {
    return new Counter({ name, help, labelNames, registers: [this.#registry] });
  }

  #gauge(name: string, help: string, value: () => number): void {
    new Gauge({
      name,
      help,
      registers: [this.#registry],
      collect() {
        this.set(value());
      },
    });
  }

  /** A count that is kept elsewhere. */
  #total(name: string, help: string, count: () => number): void {
    new Counter({
      name,
      help,
      registers: [this.#registry],
      collect() {
        this.reset();
        this.inc(count());
      },
    });
  }
}
