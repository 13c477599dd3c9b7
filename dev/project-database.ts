import { hash, randomBytes } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connectionConfig, openConnection } from '../src/lib/postgres/index.ts';
import { applicationName } from '../src/database-errors.ts';
import { projectFolder } from './build.ts';
import { isAlive, runningPostgres, startPostgres, type EmbeddedPostgres } from './embedded-postgres.ts';

/** What `npm start` keeps between two starts. Removing the folder starts afresh. */
const dataFolder = join(projectFolder, '.data');
const serverFolder = join(dataFolder, 'postgres');
const addressFile = join(dataFolder, 'address');

/**
 * Starts the project's own PostgreSQL. Its `url` names the project's database, made when it was missing.
 *
 * @throws in one line that names what is in the way
 */
export async function startProjectDatabase(): Promise<EmbeddedPostgres> {
  const server = await startPostgres(serverFolder).catch((error: unknown) => {
    const [pid, address] = existsSync(addressFile) ? readFileSync(addressFile, 'utf8').split(' ') : [];
    const isRunning = pid !== undefined && runningPostgres(serverFolder) && isAlive(Number(pid));
    throw isRunning ? new Error(`npm start is already running at ${address} (process ${pid})`) : error;
  });
  const administration = urlWithoutTls(server.url, 'postgres');
  await whileItRuns(server, async () => {
    const found = await query(administration, `SELECT FROM pg_database WHERE datname = 'inventory'`);
    if (found.length === 0) await query(administration, 'CREATE DATABASE inventory');
  });
  return { ...server, url: urlWithoutTls(server.url) };
}

/** What to say of a failure, also when a part of the project's folder cannot be used. */
export function inPlainWords(error: unknown): string {
  const { syscall, message, path, dest = path } = error as NodeJS.ErrnoException & { dest?: string };
  return syscall !== undefined && dest?.startsWith(dataFolder) ? `${dest} cannot be used: ${message}` : message;
}

/** @throws what ended the server, if it ended meanwhile: the work itself only knows that a connection was lost */
export async function whileItRuns(server: EmbeddedPostgres, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    const hasEnded = await Promise.race([server.ended.then(() => true), sleep(500, false)]);
    throw hasEnded ? serverLost() : error;
  }
}

export function serverLost(): Error {
  return new Error('The embedded PostgreSQL ended by itself; .data/postgres/log may say why. Start again to recover.');
}

/** The URL of the project's database, when `npm start` is running in another terminal. */
export function runningProjectDatabase(): string | undefined {
  const url = runningPostgres(serverFolder);
  return url && urlWithoutTls(url);
}

/** Where this process serves, for a second `npm start` to say. */
export function noteAddress(address: string): void {
  writeFileSync(addressFile, `${process.pid} ${address}`);
}

/** It listens to this machine alone, and speaks no TLS, whatever the environment says of other databases. */
function urlWithoutTls(url: string, database = 'inventory'): string {
  return `${url.replace(/postgres$/, database)}?sslmode=disable`;
}

/** As BOOTSTRAP_API_KEY has it. */
const SHORTEST_KEY = 32;

/** A key that stays the same from start to start until it is revoked; its file is readable by its owner alone. */
export async function demoKey(url: string): Promise<string> {
  const file = join(dataFolder, 'demo-api-key');
  const kept = existsSync(file) ? readFileSync(file, 'utf8').trim() : '';
  const ended = `key_sha256 = '\\x${hash('sha256', kept)}' AND (revoked_at IS NOT NULL OR expires_at <= now())`;
  if (kept.length >= SHORTEST_KEY && (await query(url, `SELECT FROM api_key WHERE ${ended}`)).length === 0) return kept;
  const key = `demo-${randomBytes(24).toString('hex')}`;
  writeFileSync(file, key, { mode: 0o600 });
  return key;
}

/** The lowest petId of a store, nothing when it is empty. */
export async function firstPet(url: string): Promise<string | undefined> {
  const [row] = await query<{ pet_id: string }>(url, 'SELECT pet_id FROM inventory_item ORDER BY pet_id LIMIT 1');
  return row?.pet_id;
}

async function query<Row extends object>(url: string, statement: string): Promise<Row[]> {
  const bounds = { connectionTimeoutMillis: 5_000, query_timeout: 10_000 };
  const client = await openConnection(connectionConfig(url, applicationName('start'), bounds));
  try {
    return (await client.query<Row>(statement)).rows;
  } finally {
    await client.end();
  }
}
