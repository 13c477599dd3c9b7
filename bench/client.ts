import { Agent, request } from 'node:http';
import { Pool } from 'pg';
import { atSteadyRate } from '../faults/open-load.ts';
import { keys, type BenchDatabase } from './database.ts';
import type { RunningSide } from './sides.ts';

/** What another tenant of the same server does: transactions in a database of its own. */
export function commitBeside(database: BenchDatabase, perSecond: number) {
  const url = new URL(database.url);
  url.pathname = 'template1';
  const tenant = new Pool({ connectionString: url.href, max: 1 });
  const commits = atSteadyRate(
    perSecond,
    () => void tenant.query('SELECT pg_current_xact_id()').catch(() => undefined),
  );
  return {
    async stop() {
      commits.stop();
      await tenant.end();
    },
  };
}

export async function setQuantity(
  side: Pick<RunningSide, 'url'>,
  agent: Agent,
  pet: number,
  quantity: number,
): Promise<boolean> {
  const answer = await send(`${side.url}/${pet}`, agent, 'PATCH', JSON.stringify({ quantity })).catch(() => undefined);
  return answer?.status === 200;
}

/** The body is counted and dropped, so that this program is not what is measured. */
export function send(
  url: string,
  agent: Agent,
  method: string,
  body?: string,
): Promise<{ status: number; bytes: number }> {
  const { promise, resolve, reject }: PromiseWithResolvers<{ status: number; bytes: number }> = Promise.withResolvers();
  const headers = {
    Authorization: `Bearer ${keys.good}`,
    ...(body === undefined ? {} : { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) }),
  };
  request(url, { agent, method, headers }, (answer) => {
    let bytes = 0;
    answer.on('data', (chunk: Buffer) => (bytes += chunk.length));
    answer.on('end', () => {
      resolve({ status: answer.statusCode ?? 0, bytes });
    });
    answer.on('error', reject);
  })
    .on('error', reject)
    .end(body);
  return promise;
}
