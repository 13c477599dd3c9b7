import { watch } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { banner } from './banner.ts';
import { buildIfStale, projectFolder } from './build.ts';
import type { EmbeddedPostgres } from './embedded-postgres.ts';
import { runInventory } from './inventory-command.ts';
import { findAddress } from './listen-address.ts';
import { demoKey, firstPet, startProjectDatabase } from './project-database.ts';
import { isAlive, parentOf } from './process-tree.ts';
import { startService } from './service.ts';

/*
 * `npm start`: all that a fresh clone needs in order to serve. With DATABASE_URL it is that database, brought to the newest
 * schema and otherwise left alone; without it, a PostgreSQL of the project's own with demo stock and a demo key.
 * `--watch` builds and restarts on every change.
 */
const stopping = new AbortController();
let failure: string | undefined;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop);
stopWhenNpmIsKilled();
try {
  process.exitCode = await start();
} catch (error) {
  if (error !== stopping.signal.reason) failure = (error as Error).message;
}
if (failure) {
  console.error(failure);
  process.exitCode = 1;
}
process.exit();

async function start(): Promise<number> {
  await buildIfStale();
  const { port, address } = await findAddress();
  const database = process.env['DATABASE_URL'] ? undefined : await startProjectDatabase();
  try {
    const settings = { ...process.env, PORT: port, ...(database && ownSettings(database)) };
    await runInventory(settings, 'migrate');
    if (database && !(await firstPet(database.url))) await runInventory(settings, 'import', 'prisma/demo-stock.csv');
    stopping.signal.throwIfAborted();
    void database?.ended.then(() => {
      if (stopping.signal.aborted) return;
      failure = 'The embedded PostgreSQL ended by itself; .data/postgres/log may say why. Start again to recover.';
      stop();
    });
    return await serve(settings, address);
  } finally {
    stop();
    await database?.stop();
  }
}

function ownSettings(database: EmbeddedPostgres): NodeJS.ProcessEnv {
  return { DATABASE_URL: database.url, BOOTSTRAP_API_KEY: process.env['BOOTSTRAP_API_KEY'] ?? demoKey() };
}

async function serve(settings: NodeJS.ProcessEnv, address: string): Promise<number> {
  let service = startService(settings, address);
  stopping.signal.addEventListener('abort', () => {
    service.stop();
  });
  if (await service.ready) console.log(await banner(settings, address));
  if (process.argv.includes('--watch')) {
    for (const changes = builds(); !(await changes.next()).done;) {
      service.stop();
      await service.ended;
      await runInventory(settings, 'migrate');
      service = startService(settings, address);
    }
  }
  return service.ended;
}

/** After each successful build of changed sources; a failed one leaves the running service alone. */
async function* builds(): AsyncGenerator<void> {
  const changes = watch(join(projectFolder, 'src'), { recursive: true, signal: stopping.signal });
  try {
    for await (const { filename } of changes) {
      if (filename?.startsWith('generated')) continue;
      await sleep(100); // an editor saves in several steps
      if (await buildIfStale().catch(() => false)) yield;
    }
  } catch (error) {
    if (!stopping.signal.aborted) throw error;
  }
}

function stop(): void {
  stopping.abort();
}

/** npm passes signals on, but nothing can pass on a `kill -9`. Between npm and this process there may be a shell. */
function stopWhenNpmIsKilled(): void {
  if (!process.env['npm_lifecycle_event']) return;
  const ancestors = [process.ppid, parentOf(process.ppid)].filter((pid) => pid > 1);
  setInterval(() => {
    if (!ancestors.every(isAlive)) stop();
  }, 500).unref();
}
