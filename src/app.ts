import type { IncomingMessage } from 'node:http';
import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { AppModule } from './app.module.ts';
import { serveDocs } from './operations/docs.ts';
import { Log } from './operations/log.ts';
import { Readiness } from './operations/readiness.ts';
import { RequestLog } from './operations/request-log.ts';
import { LIMITS, type Limits, REFUSED, type Refused, StrictExpressAdapter } from './lib/http/index.ts';
import { PrismaService } from './prisma.service.ts';
import { LONGEST_DEADLINE_MS, type Settings, unusedVariables } from './settings.ts';

/** Pages of an allowed origin may send and read these; our own route answers `OPTIONS`. */
const CORS = {
  methods: ['GET', 'HEAD', 'PATCH'],
  allowedHeaders: [
    'Authorization',
    'Change-Reason',
    'Content-Type',
    'Idempotency-Key',
    'If-Match',
    'If-None-Match',
    'X-Request-Id',
  ],
  exposedHeaders: ['ETag', 'Idempotent-Replayed', 'RateLimit', 'RateLimit-Policy', 'Retry-After', 'X-Request-Id'],
  maxAge: 600,
  preflightContinue: true,
};

/** Nest keeps its lines until our log is there. When the start fails, `serve` prints the only line. */
const NEST_OPTIONS = { bufferLogs: true, autoFlushLogs: false, abortOnError: false };

export async function createApp(settings: Settings, limits: Partial<Limits> = {}): Promise<NestExpressApplication> {
  const adapter = new StrictExpressAdapter({ ...LIMITS, requestMs: LONGEST_DEADLINE_MS + 1_000, ...limits });
  const app = await NestFactory.create<NestExpressApplication>(AppModule.with(settings), adapter, NEST_OPTIONS);
  app.useLogger(app.get(Log));
  app.flushLogs();
  const requestLog = app.get(RequestLog);
  requestLog.attach(app.getHttpServer());
  app.getHttpServer().on(REFUSED, ({ id, address, error }: Refused) => requestLog.refused(id, address, error));
  app.get(Readiness).drain = adapter.drain;
  const unused = unusedVariables();
  if (unused.length > 0) app.get(Log).warn(`variables that have no effect here: ${unused.join(', ')}`);
  if (!settings.OTEL_SDK_DISABLED) {
    const { Tracing } = await import('./operations/tracing.ts');
    const tracing = new Tracing(settings, app.get(Log), app.get(PrismaService));
    requestLog.tracing = tracing;
    app.use((request: IncomingMessage, _: unknown, next: () => void) => tracing.serve(request, next));
  }
  if (settings.CORS_ORIGINS.length > 0) app.enableCors({ ...CORS, origin: settings.CORS_ORIGINS });
  if (settings.DOCS === 'on') adapter.addLastRoutes = () => serveDocs(app);
  return app;
}
