import type { AddressInfo } from 'node:net';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { createApp } from './app.js';
import { type Settings, readSettings } from './settings.js';
import { Failure } from './errors/failure.js';
import { Drain } from './http/drain.js';
import { Log } from './operations/log.js';
import { Metrics } from './operations/metrics.js';

/** Ends the process, once: at once while it starts, then when the requests under way are answered. */
export type Stop = (reason: string, exitCode: number) => void;

/** Starts the service, or ends the process with what is wrong in one line. */
export async function serve(): Promise<Stop> {
  try {
    const settings = readSettings();
    const app = await createApp(settings);
    await listen(app, settings);
    const stop = drainOnce(app);
    for (const crash of ['uncaughtException', 'unhandledRejection'] as const) {
      process.on(crash, (error: unknown) => {
        app.get(Log).error({ err: error }, crash);
        stop(crash, 1);
      });
    }
    return stop;
  } catch (error) {
    process.stderr.write(`inventory: ${startFailure(error)}\n`);
    process.exit(1); // what was begun before the failure would keep the process alive
  }
}

async function listen(app: NestExpressApplication, { PORT, HOST }: Settings): Promise<void> {
  await app.listen(PORT, HOST);
  const { address, port } = app.getHttpServer().address() as AddressInfo;
  app.get(Log).info({ address, port }, 'listening');
}

/** Ends the service: requests under way are answered, then connections are closed. A second signal changes nothing. */
function drainOnce(app: NestExpressApplication): Stop {
  let stopping = false;
  let worstExitCode = 0;
  return (reason, exitCode) => {
    worstExitCode = Math.max(worstExitCode, exitCode);
    if (stopping) return;
    stopping = true;
    app.get(Log).info({ reason }, 'draining');
    void app
      .get(Drain)
      .empty(app.getHttpServer(), () => app.get(Metrics).activeRequests > 0)
      .then(async (emptied) => {
        const closed = app.close().catch((error: unknown) => app.get(Log).error({ err: error }, 'closing'));
        await Promise.race([closed, new Promise((resolve) => setTimeout(resolve, 2_000))]);
        app.get(Log).info(emptied ? 'stopped' : 'stopped with requests unanswered');
        await app.get(Log).flush();
        process.exit(emptied ? worstExitCode : 1);
      });
  };
}

function startFailure(error: unknown): string {
  if (error instanceof Failure) return error.message.replaceAll('\n', '\ninventory: ');
  const { code, message, port } = error as NodeJS.ErrnoException & { port?: number };
  if (code === 'EADDRINUSE') return `port ${port} is taken; set PORT to another`;
  if (code === 'EACCES') return `port ${port} may not be opened by this user; set PORT to another`;
  return message;
}
