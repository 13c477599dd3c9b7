import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client';
import { type BatchEnd, batchEnds } from '../lib/postgres/index.ts';
import { PrismaService } from '../prisma.service.ts';
import { ERRORS } from '../errors/error-code.ts';
import type { Access } from '../keys/access.ts';
import { AUTH_FAILURES } from '../keys/checked-key.ts';
import type { ApiRequest } from '../lib/http/index.ts';
import { InventoryCounts } from '../inventory/inventory-counts.ts';
import { AUDIT_RESULTS, type AuditEnd, ListAudits } from '../inventory/list/list-audits.ts';
import { version } from '../version.ts';
import { Log } from './log.ts';

/** Seconds; most responses of this service take less than 5 ms. */
const DURATIONS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

const METHODS = new Set(['GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT', 'DELETE', 'TRACE', 'CONNECT']);
/** By OpenTelemetry's semantic conventions: clients must not create values. */
export const knownMethod = (method: string) => (METHODS.has(method) ? method : '_OTHER');

/** Labels have values from closed lists only, so the number of series is bounded. */
@Injectable()
export class Metrics implements OnApplicationShutdown {
  readonly registry = new Registry();
  readonly #known = new Set<string>();
  activeRequests = 0;

  readonly #durations = this.#histogram(
    'http_server_request_duration_seconds',
    'From when the turn of a request came on its connection to the end of its response; status 499 when the connection broke before.',
    ['method', 'route', 'status'],
    DURATIONS,
  );
  readonly malformed = this.#counter('http_server_malformed_requests_total', 'Requests the parser refused.', 'code');
  readonly #errors = this.#counter('inventory_errors_total', 'Responses with an Error body, by its code.', 'code');
  readonly #unauthorized = this.#counter('inventory_unauthorized_total', 'Requests without a valid key.', 'reason');
  readonly #batchDurations = this.#histogram(
    'inventory_round_trip_duration_seconds',
    'Shared round trips to the database, failed ones included.',
    ['trip'],
    DURATIONS,
  );
  readonly #batchSizes = this.#histogram(
    'inventory_round_trip_batch_size',
    'Requests that were served by one round trip.',
    ['trip'],
    [1, 2, 4, 8, 16, 32, 64, 128, 256, 512],
  );
  readonly #batchFailures = this.#counter('inventory_round_trip_failures_total', 'Round trips that failed.', 'trip');

  readonly #audits = this.#counter('inventory_list_audits_total', 'Audits of lists, by their result.', 'result');

  constructor({ pool }: PrismaService, counts: InventoryCounts, audits: ListAudits, log: Log) {
    collectDefaultMetrics({ register: this.registry });
    this.#read(Gauge, 'http_server_active_requests', 'Requests under way.', () => this.activeRequests);
    this.#read(Counter, 'inventory_list_readings_total', 'Times the whole stock was read.', () => counts.readings);
    this.#read(Counter, 'inventory_list_patches_total', 'Times only its changes were read.', () => counts.patches);
    this.#read(Counter, 'inventory_list_reuses_total', 'Requests served from the kept list.', () => counts.reuses);
    this.#read(Gauge, 'inventory_list_bytes', 'Length of the last list, not compressed.', () => counts.listBytes);
    const busy = () => pool.totalCount - pool.idleCount;
    this.#read(Gauge, 'inventory_database_pool_busy', 'Connections of the pool in use.', busy);
    this.#read(Gauge, 'inventory_database_pool_idle', 'Connections of the pool not in use.', () => pool.idleCount);
    this.#read(Gauge, 'inventory_database_pool_waiting', 'Calls that wait for the pool.', () => pool.waitingCount);
    const held = 'Commits given up that wait for a synchronous standby, of all processes, as last seen by this one.';
    this.#read(Gauge, 'inventory_held_commits', held, () => counts.heldCommits);
    this.#read(Counter, 'inventory_log_lines_dropped_total', 'Log lines lost as nobody read them.', () => log.dropped);
    const buildInfo = { name: 'inventory_build_info', help: 'Always 1.', labelNames: ['version'] };
    new Gauge({ ...buildInfo, registers: [this.registry] }).set({ version }, 1);
    // Prometheus sees only rises, so a series must be there before its first failure.
    for (const code of Object.keys(ERRORS)) {
      this.#errors.inc({ code }, 0);
      this.malformed.inc({ code }, 0);
    }
    for (const reason of AUTH_FAILURES) this.#unauthorized.inc({ reason }, 0);
    for (const result of AUDIT_RESULTS) this.#audits.inc({ result }, 0);
    batchEnds.subscribe(this.#batchEnded);
    audits.on('end', ({ result, finding }: AuditEnd) => {
      this.#audits.inc({ result });
      if (finding !== undefined) log[result === 'none' ? 'warn' : 'error'](finding);
    });
  }

  requestEnded(request: ApiRequest<Access>, route: string, status: number, seconds: number, code?: string): void {
    const method = knownMethod(request.method);
    const methodAndRoute = `${method} ${route}`;
    if (!this.#known.has(methodAndRoute)) {
      this.#known.add(methodAndRoute);
      for (const failure of [500, 503]) this.#durations.zero({ method, route, status: failure });
    }

    this.#durations.observe({ method, route, status }, seconds);
    this.activeRequests--;
    if (code !== undefined) this.#errors.inc({ code });
    const reason = request.access?.failure;
    if (reason !== undefined) this.#unauthorized.inc({ reason });
  }

  onApplicationShutdown(): void {
    batchEnds.unsubscribe(this.#batchEnded);
  }

  readonly #batchEnded = (message: unknown): void => {
    const { name: trip, calls, durationMs, failed } = message as BatchEnd;
    this.#batchSizes.observe({ trip }, calls.length);
    this.#batchDurations.observe({ trip }, durationMs / 1_000);
    this.#batchFailures.inc({ trip }, failed ? 1 : 0);
  };

  #histogram(name: string, help: string, labelNames: string[], buckets: number[]): Histogram {
    return new Histogram({ name, help, labelNames, buckets, registers: [this.registry] });
  }

  #counter(name: string, help: string, label: string): Counter {
    return new Counter({ name, help, labelNames: [label], registers: [this.registry] });
  }

  /** Registers a value that is kept elsewhere. */
  #read(type: typeof Counter | typeof Gauge, name: string, help: string, value: () => number): void {
    new type({
      name,
      help,
      registers: [this.registry],
      collect() {
        this.reset();
        this.inc(value());
      },
    });
  }
}
