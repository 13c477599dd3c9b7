import { NestFactory } from '@nestjs/core';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { AppModule } from './app.module.js';
import type { Environment } from './environment.js';
import { Drain } from './http/drain.js';
import { InventoryExpressAdapter } from './http/express.adapter.js';
import { unmatched } from './http/unmatched.js';
import { serveDocs } from './openapi/docs.js';
import { Log } from './operations/log.js';
import { RequestWatch } from './operations/request.watch.js';

/** The whole application, not yet listening. */
export async function createApp(environment: Environment): Promise<NestExpressApplication> {
  const adapter = new InventoryExpressAdapter(environment, unmatched);
  const app = await NestFactory.create<NestExpressApplication>(AppModule.with(environment), adapter, {
    bodyParser: false,
    bufferLogs: true,
    abortOnError: false,
  });
  app.useLogger(app.get(Log));
  app.get(RequestWatch).attach(app.getHttpServer());
  const drain = app.get(Drain);
  adapter.closesWhile(() => drain.isDraining);
  adapter.addLast(() => serveDocs(app));
  return app;
}
