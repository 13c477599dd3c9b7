import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Database } from '../support/database.ts';
import type { Target } from '../../faults/exchange.ts';
import { becomesHealthy, becomesReady, ComposeProject, docker } from './compose-project.ts';
import { startJudgedLoad, type JudgedLoad } from './judged-load.ts';

const project = new ComposeProject(['docker-compose.yml', 'test/containers/postgres-port.yml'], 'scale');
let database: Database;
let balanced: Awaited<ReturnType<typeof target>>;
let direct: Target;

beforeAll(async () => {
  await project.compose(['up', '--build', '--detach']);
  balanced = await target('balancer', 8080);
  direct = await target('inventory', 3000);
  const port = await project.port('postgres', 5432);
  database = new Database(`postgresql://inventory:${encodeURIComponent(project.password)}@127.0.0.1:${port}/inventory`);
});
afterAll(() => project.remove());

async function target(service: string, containerPort: number) {
  const port = await project.port(service, containerPort);
  await becomesReady(`http://127.0.0.1:${port}/health/ready`);
  return { name: service, port, killedAt: -Infinity };
}

/** @param never codes that no request may have got */
async function judge(run: JudgedLoad, ...never: string[]): Promise<void> {
  await run.stop();
  expect(run.evidence.examples).toEqual([]);
  for (const code of never) expect(run.evidence.answered(`503 ${code}`), code).toBe(0);
}

describe('two replicas behind a balancer and a pooler in transaction mode', () => {
  it('answer linearizably with a process that shares their database directly', async () => {
    const run = await startJudgedLoad(database, [balanced, direct], project.apiKey);
    await sleep(10_000);
    await judge(run, 'service_unavailable');
    expect(run.evidence.lostConnections).toBe(0);
  });

  it('fail no request while each replica in turn is stopped and started', async () => {
    const replicas = await project.containers('replica');
    expect(replicas).toHaveLength(2);
    const run = await startJudgedLoad(database, [balanced], project.apiKey);
    for (const replica of replicas) {
      await sleep(1_000);
      await docker('stop', '--time', '30', replica);
      expect(await docker('inspect', '--format', '{{.State.ExitCode}}', replica)).toBe('0');
      await docker('start', replica);
      await becomesHealthy(replica);
      await sleep(3_000); // the balancer looks at it every second
    }
    await judge(run, 'service_unavailable', 'outcome_unknown');
    expect([run.evidence.lostConnections, run.load.refusedConnections]).toEqual([0, 0]);
  });

  it.each(['pooler', 'replica'])('answer 503 at worst, and nothing wrong, when a %s is killed', async (service) => {
    const [container = ''] = await project.containers(service);
    const run = await startJudgedLoad(database, [balanced, direct], project.apiKey);
    await sleep(1_000);
    // What a killed replica had taken and not answered: the balancer closes such a client's connection.
    if (service === 'replica') balanced.killedAt = performance.now() + 1_000;
    await docker('kill', container);
    await docker('start', container);
    await sleep(2_000); // what was answered before has come
    const before = run.evidence.answered('200');
    await expect.poll(() => run.evidence.answered('200'), { timeout: 60_000 }).toBeGreaterThan(before);
    await judge(run);
  });
});

describe('the pooled role', () => {
  it('can neither change the schema nor remove stock or history', async () => {
    const [row] = await database.sql<{ may: string }>(
      `SELECT concat_ws(',', has_schema_privilege('inventory_pooled', 'public', 'CREATE'),
              has_table_privilege('inventory_pooled', 'inventory_item', 'INSERT, DELETE, TRUNCATE'),
              has_table_privilege('inventory_pooled', 'stock_change', 'UPDATE, DELETE, TRUNCATE')) AS may`,
    );
    expect(row?.may).toBe('f,f,f');
  });
});
