import { execFile } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { API_PREFIX, readSettings } from '../src/settings.ts';
import { isHealthy } from '../src/health-check.ts';
import { SEMI_SPACE, buildIfStale, projectFolder } from './build.ts';
import { startChild } from './child.ts';
import { loadEnvFile } from './env-file.ts';
import { freePort } from './free-port.ts';
import {
  demoKey,
  firstPet,
  inPlainWords,
  noteAddress,
  serverLost,
  startProjectDatabase,
  whileItRuns,
} from './project-database.ts';

/*
 * `npm start`: all that a fresh clone needs in order to serve. With DATABASE_URL it is that database, brought to the
 * newest schema and otherwise left alone; without it, a PostgreSQL of the project's own with demo stock and a demo key.
 * `--watch` builds and restarts on every change.
 */
const { BOOTSTRAP_API_KEY: keyOfShell } = process.env;
try {
  loadEnvFile();
} catch (error) {
  console.error((error as Error).message);
  process.exit(1);
}
const { DATABASE_URL, BOOTSTRAP_API_KEY = '', PORT = '3000', HOST = '0.0.0.0', DOCS } = process.env;
const isWatched = process.argv.includes('--watch');
const nest = ['node_modules/@nestjs/cli/bin/nest.js', 'start', '--watch', '--watchAssets', '--preserveWatchOutput'];
const program = isWatched ? [...nest, '--no-shell', '--exec', process.execPath] : [SEMI_SPACE, 'dist/main.js'];

/** By these, curl would ask a proxy for this machine's addresses, too. */
const CURL_PROXIES = ['http_proxy', 'all_proxy', 'ALL_PROXY'];

let isStopping = false;
let stop = (): void => process.exit(130); // what was started so far does not outlive this process
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => stop());
if (process.env['npm_lifecycle_event']) {
  const started = ancestors();
  // npm passes signals on, but nothing can pass on a `kill -9`; then this process, or npm's shell, is given another
  // parent.
  setInterval(() => {
    if (ancestors() !== started) stop();
  }, 500).unref();
}
const code = await start().catch((error: unknown) => {
  console.error(inPlainWords(error));
  return 1;
});
process.exit(code);

/** @returns the exit code of the service, once it has ended */
async function start(): Promise<number> {
  buildIfStale();
  const database = DATABASE_URL ? undefined : await startProjectDatabase();
  const url = database?.url ?? DATABASE_URL ?? '';
  const settings: NodeJS.ProcessEnv = { ...process.env, DATABASE_URL: url };
  let key = BOOTSTRAP_API_KEY;
  if (database) {
    await whileItRuns(database, async () => {
      await runInventory(settings, 'migrate');
      key ||= await demoKey(url);
      if (!(await firstPet(url))) await runInventory(settings, 'import', 'prisma/demo-stock.csv');
    });
  } else {
    await runInventory(settings, 'migrate');
  }
  settings['BOOTSTRAP_API_KEY'] = key;

  const port = await freePort(Number(PORT), HOST).catch((error: unknown) => {
    const { code = '', message } = error as NodeJS.ErrnoException;
    throw new Error(`${message}; set ${['EADDRINUSE', 'EACCES'].includes(code) ? 'PORT' : 'HOST'} to another`);
  });
  const service = await startChild([process.execPath, ...program], 'TERM', {
    cwd: projectFolder,
    // With the cache, it starts a tenth faster.
    env: { ...settings, PORT: String(port), NODE_COMPILE_CACHE: 'node_modules/.cache/compiled' },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  stop = () => {
    isStopping = true;
    service.process.kill('SIGTERM');
    // While Nest starts the service anew, it has nobody to pass the first one to.
    if (isWatched) setTimeout(stop, 500).unref();
  };
  const host = ['', '0.0.0.0', '::'].includes(HOST) ? 'localhost' : HOST.includes(':') ? `[${HOST}]` : HOST;
  const address = `http://${host}:${port}`;
  if (database) noteAddress(address);
  const shownKey = database ? key : key && '$BOOTSTRAP_API_KEY';
  void announce(address, shownKey, await firstPet(readSettings(settings).DATABASE_URL));

  const lost = database?.ended.then(() => {
    throw serverLost();
  });
  const code = await Promise.race(lost ? [service.ended, lost] : [service.ended]);
  const { signalCode } = service.process;
  if (signalCode && !isStopping) console.error(`The service was ended by ${signalCode}, from outside.`);
  await database?.stop();
  return code;
}

/** @throws with what the command wrote to stderr, when it fails */
async function runInventory(env: NodeJS.ProcessEnv, ...args: string[]): Promise<void> {
  const ran = promisify(execFile)(process.execPath, ['dist/cli.js', ...args], { cwd: projectFolder, env });
  await ran.catch((error: unknown) => {
    throw new Error((error as { stderr: string }).stderr.trim() || `inventory ${args.join(' ')} failed`);
  });
}

/** Says what to try first, ready to paste, as soon as the service is ready. */
async function announce(address: string, key: string, pet = '<petId>'): Promise<void> {
  while (!(await isHealthy(HOST, Number(new URL(address).port || 80), '/health/ready', 2_000))) await sleep(200);
  const list = `${address}/${API_PREFIX}/inventory`;
  const curl = CURL_PROXIES.some((name) => process.env[name]) ? `curl --noproxy '*'` : 'curl';
  const makeKey = `
  Make a key, with the same DATABASE_URL:
    KEY=$(npm run --silent inventory -- keys create --name me)
`;
  const takeKey = `
  Take the key from .env:
    BOOTSTRAP_API_KEY='…'
`;
  console.log(`
  API         ${address}/${API_PREFIX}${DOCS === 'off' ? '' : `\n  Swagger UI  ${address}/docs`}
${key ? '' : makeKey}${key === '$BOOTSTRAP_API_KEY' && !keyOfShell ? takeKey : ''}
  List the stock:
    ${curl} -H "Authorization: Bearer ${key || '$KEY'}" ${list}

  Set the quantity of a pet:
    ${curl} -X PATCH -H "Authorization: Bearer ${key || '$KEY'}" -H "Content-Type: application/json" \\
      -d '{"quantity": 5}' ${list}/${pet}
`);
}

function ancestors(): string {
  const shell = `/proc/${process.ppid}/stat`;
  return `${process.ppid} ${existsSync(shell) ? readFileSync(shell, 'utf8').split(' ')[3] : ''}`;
}
