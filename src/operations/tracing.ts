import { AsyncLocalStorage } from 'node:async_hooks';
import type { IncomingMessage } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import {
  type Attributes,
  DiagLogLevel,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type TimeInput,
  type Tracer,
  diag,
  trace,
} from '@opentelemetry/api';
import { type ExportResult, parseTraceParent } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import {
  defaultResource,
  detectResources,
  resourceAttributesEnvDetector,
  resourceFromAttributes,
  serviceNameEnvDetector,
} from '@opentelemetry/resources';
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  type ReadableSpan,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import type { Access } from '../keys/access.ts';
import { type ApiRequest, contextOf } from '../lib/http/index.ts';
import {
  type Batch,
  type BatchEnd,
  batchCalls,
  batchEnds,
  batchStarts,
  connectionConfig,
} from '../lib/postgres/index.ts';
import { failureOf } from '../database-errors.ts';
import type { PrismaService } from '../prisma.service.ts';
import { withoutSecrets } from '../safe-text.ts';
import type { Settings } from '../settings.ts';
import type { Log } from './log.ts';
import { version } from '../version.ts';
import { knownMethod } from './metrics.ts';

const FLUSH_MS = 1_000;
const PROBES = /^\/(?:health\/|metrics(?:\?|$))/;
const SQLSTATE = /^(?!P[1-9])(?=.*\d)\w{5}$/; // P1 to P9: Prisma's own

/**
 * Spans of requests, but not of probes, and of what they need from the database, by OpenTelemetry's semantic
 * conventions; a raw path may hold a secret, so `url.path` is left out. Only this file imports OpenTelemetry's
 * packages, and it is loaded only if traces are on.
 */
export class Tracing {
  readonly #provider: TracerProvider;
  readonly #tracer: Tracer;
  readonly #database;
  /** The span of the request or of the round trip that the code runs for. */
  readonly #current = new AsyncLocalStorage<Span | undefined>();
  /** By request, by a request's call to a batcher, and by the calls of a batch. */
  readonly #spans = new WeakMap<object, Span>();

  constructor(settings: Settings, log: Log, prisma: PrismaService) {
    warnOnce(log);
    const own = resourceFromAttributes({ 'service.name': 'inventory', 'service.version': version });
    const given = detectResources({ detectors: [resourceAttributesEnvDetector, serviceNameEnvDetector] });
    this.#provider = new TracerProvider({
      resource: defaultResource().merge(own).merge(given),
      sampler: samplerOf(settings),
      spanProcessors: [new BatchSpanProcessor({ exporter: new LoggedExporter(log) })],
    });
    this.#tracer = this.#provider.getTracer('inventory', version);
    const { host, port, database } = connectionConfig(settings.DATABASE_URL, '', {});
    const server = { 'server.address': host, 'server.port': port };
    this.#database = { 'db.system.name': 'postgresql', 'db.namespace': database, ...server };
    batchCalls.subscribe(this.#called);
    batchStarts.bindStore(this.#current, (batch) => this.#startBatch(batch as Batch));
    batchEnds.subscribe(this.#batchEnded);
    // Prisma gives the start in whole milliseconds, and the duration more exactly.
    prisma.$on('query', ({ query, timestamp, duration }) => {
      const operation = /^\w+/.exec(query.trimStart())?.[0].toUpperCase();
      const attributes = { 'db.operation.name': operation };
      const span = this.#startInDatabase(operation ?? 'query', timestamp, attributes, this.#current.getStore());
      span?.end(timestamp.getTime() + duration);
    });
  }

  /** The code that runs for the request finds its span. */
  serve(request: IncomingMessage, next: () => void): void {
    this.#current.run(this.#spanOf(request), next);
  }

  /** @returns the id of its trace, if it has one */
  requestEnded(
    request: ApiRequest<Access>,
    route: string | undefined,
    status: number,
    durationMs: number,
    code?: string,
  ): string | undefined {
    const span = this.#spanOf(request);
    if (!span) return undefined;
    const method = knownMethod(request.method);
    const verb = method === '_OTHER' ? 'HTTP' : method;
    span.updateName(route === undefined ? verb : `${verb} ${route}`);
    span.setAttributes({
      'http.route': route,
      'http.response.status_code': status,
      'inventory.key_id': request.access?.keyId,
    });
    if (status >= 500) fail(span, code ?? String(status));
    span.end(request.startedAt + durationMs);
    return span.spanContext().traceId;
  }

  /** Sends what is left; a collector that does not take it within a second loses it. */
  async close(): Promise<void> {
    batchCalls.unsubscribe(this.#called);
    batchStarts.unbindStore(this.#current);
    batchEnds.unsubscribe(this.#batchEnded);
    await Promise.race([this.#provider.shutdown().catch(() => undefined), pause(FLUSH_MS)]);
  }

  readonly #called = (call: unknown): void => {
    const span = this.#current.getStore();
    if (span) this.#spans.set(call as object, span);
  };

  readonly #batchEnded = (message: unknown): void => {
    const end = message as BatchEnd;
    const span = this.#spans.get(end.calls) ?? this.#startBatch(end);
    if (!span) return;
    const code = end.reason === undefined ? '' : failureOf(end.reason).code;
    if (SQLSTATE.test(code)) span.setAttribute('db.response.status_code', code);
    if (end.failed) fail(span, code || '_OTHER');
    span.end(performance.now());
  };

  /** In the trace of one of its requests; the others get a link to it. Those that are not sampled do not record. */
  #startBatch({ name = 'batch', calls, beganAt }: Batch): Span | undefined {
    const callers = calls.flatMap((call) => this.#spans.get(call) ?? []);
    const [first, ...others] = callers.filter((span) => span.isRecording());
    const size = calls.length > 1 ? calls.length : undefined; // by the conventions
    const span = this.#startInDatabase(name, beganAt, { 'db.operation.batch.size': size }, first);
    if (!span) return undefined;
    for (const other of others) other.addLink({ context: span.spanContext() });
    this.#spans.set(calls, span);
    return span;
  }

  /** Only what serves a request has a span: not readiness, the start, or what goes on when the request has ended. */
  #startInDatabase(name: string, startTime: TimeInput, attributes: Attributes, parent?: Span): Span | undefined {
    if (!parent?.isRecording()) return undefined;
    const options = { kind: SpanKind.CLIENT, startTime, attributes: { ...this.#database, ...attributes } };
    return this.#tracer.startSpan(name, options, trace.setSpan(ROOT_CONTEXT, parent));
  }

  #spanOf(request: IncomingMessage): Span | undefined {
    const known = this.#spans.get(request);
    if (known || PROBES.test(request.url ?? '')) return known;
    const { method, startedAt } = contextOf(request);
    const attributes = { 'http.request.method': knownMethod(method), 'url.scheme': 'http' };
    const caller = parseTraceParent(String(request.headers['traceparent']));
    const parent = caller ? trace.setSpanContext(ROOT_CONTEXT, { ...caller, isRemote: true }) : ROOT_CONTEXT;
    const span = this.#tracer.startSpan('HTTP', { kind: SpanKind.SERVER, startTime: startedAt, attributes }, parent);
    this.#spans.set(request, span);
    return span;
  }
}

function fail(span: Span, type: string): void {
  span.setStatus({ code: SpanStatusCode.ERROR }).setAttribute('error.type', type);
}

function samplerOf({ OTEL_TRACES_SAMPLER: name, OTEL_TRACES_SAMPLER_ARG: ratio }: Settings): Sampler {
  // With these shares, it samples all and none.
  const share = name.endsWith('always_on') ? 1 : name.endsWith('always_off') ? 0 : ratio;
  const root = new TraceIdRatioBasedSampler(share);
  return name.startsWith('parentbased_') ? new ParentBasedSampler({ root }) : root;
}

/** Logs that spans are lost, once for each change: a collector may be away for hours. */
class LoggedExporter extends OTLPTraceExporter {
  #lastFault: string | undefined;

  constructor(private readonly log: Log) {
    super();
  }

  override export(spans: ReadableSpan[], done: (result: ExportResult) => void): void {
    super.export(spans, (result) => {
      const fault = result.error && String(result.error);
      if (fault !== this.#lastFault) {
        const advice = fault?.includes('Expected HTTP/') ? ': this port speaks gRPC, not HTTP; use port 4318' : '';
        if (fault) this.log.warn({ err: result.error }, `traces are lost${advice}`);
        else this.log.info('traces are sent');
      }
      this.#lastFault = fault;
      done(result);
    });
  }
}

/** Warnings of the packages, such as of a variable that they cannot read: each kind once. */
function warnOnce(log: Log): void {
  const logged = new Set<string>();
  const warn = (first: string, second?: unknown) => {
    const message = first.includes(' ') ? first : String(second); // some put the name of their class first
    const kind = message.replaceAll(/\d+/g, '');
    if (logged.has(kind)) return;
    logged.add(kind);
    log.warn(withoutSecrets(`traces: ${message}`));
  };
  const nothing = () => undefined;
  diag.setLogger({ warn, error: nothing, info: nothing, debug: nothing, verbose: nothing }, DiagLogLevel.WARN);
}
