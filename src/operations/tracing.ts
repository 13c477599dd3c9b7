import { AsyncLocalStorage } from 'node:async_hooks';
import type { IncomingMessage } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import {
  DiagLogLevel,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  type SpanOptions,
  SpanStatusCode,
  TraceFlags,
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
import { type Batch, type BatchEnd, batchCalls, batchEnds, batchStarts } from '../lib/postgres/index.ts';
import type { PrismaService } from '../prisma.service.ts';
import { withoutSecrets } from '../safe-text.ts';
import type { Settings } from '../settings.ts';
import type { Log } from './log.ts';
import { version } from '../version.ts';
import { knownMethod } from './metrics.ts';

const FLUSH_MS = 1_000;
const POSTGRESQL = { 'db.system.name': 'postgresql' };

/**
 * Spans of requests and of round trips to the database, by OpenTelemetry's semantic conventions; a raw path may hold a
 * secret, so `url.path` is left out. Only this file imports OpenTelemetry's packages, and it is loaded only if traces
 * are on. The packages read their standard variables themselves, such as OTEL_SERVICE_NAME.
 */
export class Tracing {
  readonly #provider: TracerProvider;
  readonly #tracer: Tracer;
  /** The span of the request or of the round trip that the code runs for. */
  readonly #current = new AsyncLocalStorage<Span>();
  /** By request, by a request's call to a batcher, and by the calls of a batch. */
  readonly #spans = new WeakMap<object, Span>();

  constructor(settings: Settings, log: Log, prisma: PrismaService) {
    warnOnce(log);
    const own = resourceFromAttributes({ 'service.name': 'inventory', 'service.version': version });
    const given = detectResources({ detectors: [resourceAttributesEnvDetector, serviceNameEnvDetector] });
    this.#provider = new TracerProvider({
      resource: defaultResource().merge(own).merge(given),
      sampler: samplerOf(settings),
      spanLimits: { linkCountLimit: Infinity }, // a batch has a link for each of its sampled requests
      spanProcessors: [new BatchSpanProcessor({ exporter: new LoggedExporter(log) })],
    });
    this.#tracer = this.#provider.getTracer('inventory', version);
    batchCalls.subscribe(this.#called);
    batchStarts.bindStore(this.#current, (batch) => this.#startBatch(batch as Batch));
    batchEnds.subscribe(this.#batchEnded);
    // Prisma gives the start in whole milliseconds, and the duration more exactly.
    prisma.$on('query', ({ query, timestamp, duration }) => {
      const operation = /^\w+/.exec(query.trimStart())?.[0].toUpperCase();
      const attributes = { ...POSTGRESQL, 'db.operation.name': operation };
      const options = { kind: SpanKind.CLIENT, startTime: timestamp, attributes };
      this.#start(operation ?? 'query', options, this.#current.getStore()).end(timestamp.getTime() + duration);
    });
  }

  /** The code that runs for the request finds its span. */
  serve(request: IncomingMessage, next: () => void): void {
    this.#current.run(this.#spanOf(request), next);
  }

  /** @returns the id of its trace */
  requestEnded(
    request: ApiRequest<Access>,
    route: string | undefined,
    status: number,
    durationMs: number,
    code?: string,
  ): string {
    const span = this.#spanOf(request);
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
    if (end.failed) fail(span, '_OTHER');
    span.end(performance.now());
  };

  /** In the trace of its first sampled request. If none of its requests is sampled, it is not either. */
  #startBatch({ name = 'batch', calls, beganAt }: Batch): Span {
    const callers = calls.flatMap((call) => this.#spans.get(call) ?? []);
    const sampled = callers.filter((span) => span.spanContext().traceFlags & TraceFlags.SAMPLED);
    const links = sampled.map((span) => ({ context: span.spanContext() }));
    const size = calls.length > 1 ? calls.length : undefined; // by the conventions
    const attributes = { ...POSTGRESQL, 'db.operation.batch.size': size };
    const options = { kind: SpanKind.CLIENT, startTime: beganAt, attributes, links };
    const span = this.#start(name, options, sampled[0] ?? callers[0]);
    this.#spans.set(calls, span);
    return span;
  }

  #spanOf(request: IncomingMessage): Span {
    const known = this.#spans.get(request);
    if (known) return known;
    const { method, startedAt } = contextOf(request);
    const attributes = { 'http.request.method': knownMethod(method), 'url.scheme': 'http' };
    const caller = parseTraceParent(String(request.headers['traceparent']));
    const parent = caller ? trace.wrapSpanContext({ ...caller, isRemote: true }) : undefined;
    const span = this.#start('HTTP', { kind: SpanKind.SERVER, startTime: startedAt, attributes }, parent);
    this.#spans.set(request, span);
    return span;
  }

  #start(name: string, options: SpanOptions, parent: Span | undefined): Span {
    return this.#tracer.startSpan(name, options, parent ? trace.setSpan(ROOT_CONTEXT, parent) : ROOT_CONTEXT);
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
        if (result.error) this.log.warn({ err: result.error }, 'traces are lost');
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
