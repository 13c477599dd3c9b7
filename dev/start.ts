import { spawnSync } from 'node:child_process';
import { banner } from './banner.ts';
import { buildIfStale, projectFolder } from './build.ts';
import { freePort } from './free-port.ts';
import { demoKey, firstPet, startProjectDatabase } from './project-database.ts';
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
  buildIfStale();
  const { port, address } = await findAddress();
  const database = process.env['DATABASE_URL'] ? undefined : await startProjectDatabase();
  try {
    const settings = { ...process.env, PORT: port };
    if (database) Object.assign(settings, { DATABASE_URL: database.url, BOOTSTRAP_API_KEY: ownKey() });
    runInventory(settings, 'migrate');
    if (database && !(await firstPet(database.url))) runInventory(settings, 'import', 'prisma/demo-stock.csv');
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

function ownKey(): string {
  return process.env['BOOTSTRAP_API_KEY'] ?? demoKey();
}

async function serve(settings: NodeJS.ProcessEnv, address: string): Promise<number> {
  const service = startService(settings, address, process.argv.includes('--watch'));
  stopping.signal.addEventListener('abort', () => {
    service.stop();
  });
  if (await service.ready) console.log(await banner(settings, address));
  return service.ended;
}

/** Where this machine reaches the service. A PORT that makes no sense is passed on: the service says best what is wrong with it. */
async function findAddress(): Promise<{ port: string; address: string }> {
  const { PORT = '3000', HOST = '' } = process.env;
  const isEveryAddress = ['', '0.0.0.0', '::'].includes(HOST);
  const port = await freePort(Number(PORT), HOST || '0.0.0.0').catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') return PORT;
    throw new Error(`port ${PORT} is taken; set PORT to another`, { cause: error });
  });
  const host = isEveryAddress ? 'localhost' : HOST.includes(':') ? `[${HOST}]` : HOST;
  return { port: String(port), address: `http://${host}:${port}` };
}

/** @throws with what the command wrote to stderr, when it fails */
function runInventory(settings: NodeJS.ProcessEnv, ...args: string[]): void {
  const command = ['dist/cli.js', ...args];
  const { status, stderr } = spawnSync(process.execPath, command, {
    cwd: projectFolder,
    env: settings,
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(stderr.trim() || `inventory ${args.join(' ')} failed`);
}

function stop(): void {
  stopping.abort();
}

/** npm passes signals on, but nothing can pass on a `kill -9`; then this process is given another parent. */
function stopWhenNpmIsKilled(): void {
  const parent = process.ppid;
  if (!process.env['npm_lifecycle_event']) return;
  setInterval(() => {
    if (process.ppid !== parent) stop();
  }, 500).unref();
}
