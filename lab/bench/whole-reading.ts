import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { ask, setQuantity, statusOf } from './client.ts';
import { keys, startDatabase } from './database.ts';
import type { Goal } from './scenarios.ts';
import { startSide } from './sides.ts';

/** What was found again and again with a million pets, and the most that its median may be. */
export interface Reading {
  what: string;
  valuesMs: number[];
  goal: Pick<Goal, 'value' | 'since'>;
}

/** The first is that of a process just started. */
const READINGS = 5;

/** Lists that follow more changes than the service patches, so it reads the stock whole; then lists in gzip. */
export async function measureWholeReading(): Promise<Reading[]> {
  const pets = 1_000_000;
  await using database = await startDatabase();
  await database.own.fill(pets);
  await using side = await startSide('service', { DATABASE_URL: database.own.url }, './lab/bench/event-loop.ts');
  const longestHeldMs = async (): Promise<number> => {
    const reply = once(side.program, 'message', { signal: AbortSignal.timeout(5_000) });
    side.program.send('report');
    return ((await reply) as [number])[0];
  };
  let quantity = 1_000_000;
  await setQuantity(side.url, 1, ++quantity);
  const timesMs: number[] = [];
  const heldMs: number[] = [];
  for (let n = 1; n <= READINGS; n++) {
    await database.own.query('UPDATE inventory_item SET quantity = quantity + 1 WHERE pet_id <= 5000');
    await longestHeldMs();
    const start = performance.now();
    const status = await statusOf(ask(side.url));
    timesMs.push(performance.now() - start);
    if (status !== 200) throw new Error(`the list is answered ${status}`);
    await sleep(50); // the loop has to turn once more before what held it is counted
    heldMs.push(await longestHeldMs());
  }

  const heldByGzip = async (change: () => Promise<unknown>): Promise<number[]> => {
    const held: number[] = [];
    for (let n = 1; n <= READINGS; n++) {
      await change();
      await longestHeldMs();
      await readGzip(side.url);
      await sleep(50);
      held.push(await longestHeldMs());
    }
    return held;
  };
  const elsewhere = new URL(database.own.url);
  elsewhere.pathname = 'template1';
  const tenant = new Client({ connectionString: elsewhere.href });
  await tenant.connect();
  await readGzip(side.url); // deflates all pieces
  const gzipAfterCommitMs = await heldByGzip(() => tenant.query('SELECT pg_current_xact_id()'));
  const gzipAfterUpdateMs = await heldByGzip(() => setQuantity(side.url, 1, ++quantity));
  await tenant.end();
  const atMost = (value: number, what: string, valuesMs: number[]): Reading => {
    return { what, valuesMs, goal: { value, since: '2026-11-23' } };
  };
  return [
    atMost(1_500, 'list of 1,000,000 pets, read whole and sent', timesMs),
    atMost(20, 'longest block of the event loop during this', heldMs),
    atMost(10, 'the same with gzip, after a commit elsewhere', gzipAfterCommitMs),
    atMost(10, 'the same with gzip, after one changed pet', gzipAfterUpdateMs),
  ];
}

/** Leaves the bytes as they are: to inflate them would take this program a core. */
async function readGzip(url: string): Promise<void> {
  const headers = { Authorization: `Bearer ${keys.good}`, 'Accept-Encoding': 'gzip' };
  const [response] = (await once(get(url, { headers }), 'response', { signal: AbortSignal.timeout(60_000) })) as [
    IncomingMessage,
  ];
  response.resume();
  await once(response, 'end');
  const { statusCode, headers: received } = response;
  if (statusCode !== 200 || received['content-encoding'] !== 'gzip') throw new Error(`no gzip list: ${statusCode}`);
}
