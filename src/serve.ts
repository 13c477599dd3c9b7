import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { createApp } from './app.ts';
import { Log } from './operations/log.ts';
import type { StrictExpressAdapter } from './lib/http/index.ts';
import { Settings, readSettings } from './settings.ts';

export type Stop = (reason: string, exitCode: number) => void;

/** Starts the service. On failure it prints one line and ends the process. */
export async function serve(): Promise<Stop> {
  try {
    const settings = readSettings();
    const app = await createApp(settings);
    await app.listen(settings.PORT, settings.HOST);
    const { address, port } = app.getHttpServer().address() as AddressInfo;
    app.get(Log).info({ address, port }, 'listening');
    const stop: Stop = (reason, exitCode) => void drain(app, reason, exitCode);
    for (const crash of ['uncaughtException', 'unhandledRejection'] as const) {
      process.on(crash, (error: unknown) => {
        app.get(Log).error({ err: error }, crash);
        stop(crash, 1);
      });
    }
    return stop;
  } catch (error) {
    const { message, syscall } = error as NodeJS.ErrnoException;
    const settings = { listen: 'PORT, or HOST,', getaddrinfo: 'HOST' }[syscall ?? ''];
    const advice = settings === undefined ? '' : `; set ${settings} to another`;
    process.stderr.write(`inventory: ${message.replaceAll('\n', '\ninventory: ')}${advice}\n`);
    process.exit(1); // what was begun before the failure would keep the process alive
  }
}

/** Answers the requests under way. A second call changes only the exit code, and only for a crash. */
async function drain(app: NestExpressApplication, reason: string, exitCode: number): Promise<void> {
  if (exitCode > 0) process.exitCode = exitCode;
  const { drain: server } = app.getHttpAdapter() as StrictExpressAdapter;
  if (server.isDraining) return;
  const log = app.get(Log);
  log.info({ reason }, 'draining');
  const { DRAIN_DELAY_MS: delayMs, DRAIN_TIMEOUT_MS: timeoutMs } = app.get<Settings>(Settings);
  const emptied = await server.empty(app.getHttpServer(), { delayMs, timeoutMs });
  const closed = app.close().catch((error: unknown) => log.error({ err: error }, 'closing'));
  await Promise.race([closed, pause(2_000)]);
  log.info(emptied ? 'stopped' : 'stopped with requests unanswered');
  await log.close();
  process.exit(emptied ? process.exitCode : 1);
}
