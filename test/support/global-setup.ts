import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, rmSync, statfsSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { buildIfStale } from '../../dev/build.ts';
import { Database, createDatabaseOn } from './database.ts';
import { HAS_POOLER } from './pooler.ts';
import { startStore } from './postgres-server.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** URL of the PostgreSQL server of the run. Its role may create databases. */
    postgresUrl: string;
    /** For example 18. */
    postgresMajor: number;
    /** A migrated, empty database. Each test file gets a copy of it. */
    templateDatabase: string;
  }
}

const { POSTGRES_VERSION: wantedVersion = '', POSTGRES_HOME, POSTGRES_MESSAGES } = process.env;

/** Vitest calls this once a run. It builds the service, and starts a server with a migrated template database. */
export default async function prepareRun({ provide }: TestProject): Promise<() => Promise<void>> {
  buildIfStale();
  // Compiling is a fifth of a start, and a run starts three hundred processes.
  process.env['NODE_COMPILE_CACHE'] ??= join(tmpdir(), 'inventory-compile-cache');
  const folder = makeTemporaryFolder();
  process.env['TMPDIR'] = folder;
  const cluster = join(folder, 'cluster');
  const first = await startStore(cluster);
  if (POSTGRES_MESSAGES) await new Database(first.url).setSystem(`SET lc_messages = '${POSTGRES_MESSAGES}'`);
  await first.stop();
  process.env['TEST_CLUSTER'] = cluster;
  const server = await startServer();
  const template = await createDatabaseOn(server.url);
  const [shown] = await template.sql('SHOW server_version');
  const version = String(shown?.['server_version']);
  if (!version.startsWith(wantedVersion)) throw new Error(`${server.kind} is ${version}, not ${wantedVersion}`);
  console.log(`Tests run on ${server.kind}, ${version}.`);
  if (!HAS_POOLER) console.log('No PgBouncer was found: install 1.21 or later, or name its command in PGBOUNCER.');
  provide('postgresUrl', server.url);
  provide('postgresMajor', Number.parseInt(version));
  provide('templateDatabase', new URL(template.url).pathname.slice(1));
  return async () => {
    await template.drop();
    await server.stop();
    rmSync(folder, { recursive: true, maxRetries: 3 });
  };
}

/**
 * For all temporary files of the run, half a gigabyte: in memory if there is room. On a disk, each server costs 0.5 s
 * of CPU.
 */
function makeTemporaryFolder(): string {
  const memory = '/dev/shm';
  const { bavail, bsize } = existsSync(memory) ? statfsSync(memory) : { bavail: 0, bsize: 0 };
  const folder = mkdtempSync(join(bavail * bsize > 2 * 2 ** 30 ? memory : tmpdir(), 'inventory-test-'));
  chmodSync(folder, 0o755); // for the account of PostgreSQL
  return folder;
}

async function startServer() {
  const url = process.env['TEST_DATABASE_URL'];
  if (url) return { url, kind: 'the server of TEST_DATABASE_URL', stop: () => Promise.resolve() };
  const needsContainer = process.env['TESTS_NEED_CONTAINER'] === '1';
  if (!wantedVersion && !POSTGRES_HOME && (needsContainer || (await dockerAnswers()))) {
    try {
      return await startContainer();
    } catch (error) {
      if (needsContainer) throw error;
      console.warn(`Docker answers but postgres:18 does not start in it: ${(error as Error).message}`);
    }
  }
  const server = await startStore(join(tmpdir(), 'server'), { fsync: false });
  const kind = POSTGRES_HOME ? `the PostgreSQL of ${POSTGRES_HOME}` : 'the embedded PostgreSQL';
  return { url: server.url, kind, stop: () => server.stop() };
}

async function startContainer() {
  const { GenericContainer, Wait } = await import('testcontainers');
  const container = await new GenericContainer('postgres:18')
    .withEnvironment({
      POSTGRES_PASSWORD: 'test',
      POSTGRES_INITDB_ARGS: '--locale-provider=builtin --builtin-locale=C.UTF-8',
    })
    .withCommand(['postgres', '-c', 'fsync=off'])
    .withExposedPorts(5432)
    .withWaitStrategy(Wait.forListeningPorts()) // during its initialisation, PostgreSQL listens on no port
    .withStartupTimeout(60_000)
    .start();
  return {
    url: `postgresql://postgres:test@${container.getHost()}:${container.getMappedPort(5432)}/postgres`,
    kind: 'a postgres:18 container',
    stop: () => container.stop(),
  };
}

/** Asks the socket of the Docker engine once, so that a machine without Docker loses no time. */
async function dockerAnswers(): Promise<boolean> {
  const host = new URL(process.env['DOCKER_HOST'] ?? 'unix:///var/run/docker.sock');
  const target = host.protocol === 'unix:' ? { socketPath: host.pathname } : { host: host.hostname, port: host.port };
  const ping = request({ ...target, path: '/_ping', signal: AbortSignal.timeout(1_000) }).end();
  try {
    const [answer] = (await once(ping, 'response')) as [IncomingMessage];
    return answer.resume().statusCode === 200;
  } catch {
    return false;
  }
}
