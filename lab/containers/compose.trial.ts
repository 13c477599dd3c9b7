import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SEMI_SPACE } from '../../dev/build.ts';
import type { Target } from '../faults/exchange.ts';
import { Database } from '../../test/support/database.ts';
import { itemText } from '../../test/support/stock.ts';
import { becomesHealthy, becomesReady, ComposeProject, docker } from './compose-project.ts';
import { startJudgedLoad, type JudgedLoad } from './judged-load.ts';

const project = new ComposeProject('docker-compose.yml', 'lab/containers/for-trials.yml');
let port = 0;

beforeAll(async () => {
  await project.compose(['up', '--build', '--detach']);
  await findService();
});
afterAll(() => project.remove());

async function findService(): Promise<void> {
  port = await project.port('inventory', 3000);
  await becomesReady(`http://127.0.0.1:${port}/health/ready`);
}

function request(path: string, init: RequestInit = {}, key = project.apiKey): Promise<Response> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  return fetch(`http://127.0.0.1:${port}/v1${path}`, { headers, ...init });
}

async function list(): Promise<string> {
  const answer = await request('/inventory');
  expect(answer.status).toBe(200);
  return answer.text();
}

/** Updates the first pet of the demo stock. @returns its item in the list from then on */
async function setQuantity(quantity: number): Promise<string> {
  const answer = await request('/inventory/1', { method: 'PATCH', body: JSON.stringify({ quantity }) });
  const item = itemText(1, quantity);
  expect([answer.status, await answer.text()]).toEqual([200, item]);
  return item;
}

describe('docker compose up', () => {
  it('lists the demo stock with the key of the environment', async () => {
    const stock = await list();
    expect(stock.match(/"petId"/g)?.length).toBeGreaterThan(20);
    expect(new Set(stock.match(/available|pending|sold/g))).toEqual(new Set(['available', 'pending', 'sold']));
  });

  it('sets a quantity', async () => {
    const item = await setQuantity(4711);
    expect(await list()).toContain(item);
  });

  it('makes a key that works until it is revoked', async () => {
    const key = (await project.exec('inventory', 'inventory', 'keys', 'create', '--name', 'trial')).trim();
    expect((await request('/inventory', {}, key)).status).toBe(200);
    const keys = await project.exec('inventory', 'inventory', 'keys', 'list', '--json');
    const { id } = (JSON.parse(keys) as { id: string; name: string }[]).find(({ name }) => name === 'trial') ?? {};
    await project.exec('inventory', 'inventory', 'keys', 'revoke', id ?? 'trial');
    expect((await request('/inventory', {}, key)).status).toBe(401);
  });

  it('keeps what was set when all containers are made anew, and imports no demo stock over it', async () => {
    const item = await setQuantity(815);
    await project.compose(['down', '--timeout', '10']);
    await project.compose(['up', '--detach']);
    await findService();
    expect(await list()).toContain(item);
  });
});

describe('docker compose up with another POSTGRES_PASSWORD than the first time', () => {
  it('fails, and says in the log of setup how to change the password', async () => {
    const { password } = project;
    project.password = 'another';
    await expect(project.compose(['up', '--detach'])).rejects.toThrow('exit');
    const log = await project.compose(['logs', '--no-color', 'setup']);
    project.password = password;
    expect(log.match(/(?<=\| +)\S.*/g)).toEqual([
      expect.stringMatching(/^error: the database refuses the login: .* \(28P01\); check user and password: /),
      'PostgreSQL keeps its first password. Put it back into POSTGRES_PASSWORD, or run deploy/compose/change-password.sh.',
    ]);
    await project.compose(['up', '--detach']);
    await findService();
  });
});

describe('docker compose up on a store that was emptied', () => {
  it('leaves it empty', async () => {
    await project.exec('postgres', 'psql', '-U', 'inventory', '-c', 'DELETE FROM inventory_item');
    await project.compose(['up', '--detach']);
    expect(await list()).toBe('[]');
    await project.exec('inventory', 'inventory', 'import', 'prisma/demo-stock.csv');
  });
});

describe('the container', () => {
  it('runs node as process 1, not as root, on a root it cannot write', async () => {
    const commandLine = await project.exec('inventory', 'cat', '/proc/1/cmdline');
    expect(commandLine.split('\0').slice(0, 3)).toEqual(['node', SEMI_SPACE, 'dist/main.js']);
    expect((await project.exec('inventory', 'id', '-u')).trim()).toBe('1000');
    await expect(project.exec('inventory', 'touch', '/tmp/x')).rejects.toThrow(/Read-only file system/);
  });

  it('lists the packages in it', async () => {
    const json = async (path: string): Promise<unknown> => JSON.parse(await project.exec('inventory', 'cat', path));
    const { components } = (await json('sbom.cdx.json')) as { components: { name: string; version: string }[] };
    const { packages } = (await json('node_modules/.package-lock.json')) as {
      packages: Record<string, { version: string }>;
    };
    const installed = Object.entries(packages).map(
      ([path, { version }]) => `${path.split('node_modules/').at(-1) ?? path}@${version}`,
    );
    expect(new Set(components.map(({ name, version }) => `${name}@${version}`))).toEqual(new Set(installed));
  });
});

describe('two replicas behind a balancer and a pooler in transaction mode', () => {
  let database: Database;
  let balanced: Awaited<ReturnType<typeof target>>;
  let direct: Target;

  beforeAll(async () => {
    project.profiles = 'scale';
    await project.compose(['up', '--build', '--detach']);
    balanced = await target('balancer', 8080);
    direct = await target('inventory', 3000);
    const port = await project.port('postgres', 5432);
    const password = encodeURIComponent(project.password);
    database = new Database(`postgresql://inventory:${password}@127.0.0.1:${port}/inventory`);
  });

  it('answer linearizably with a process that shares their database directly', async () => {
    const run = await startJudgedLoad(database, [balanced, direct], project.apiKey);
    await sleep(5_000);
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
      await sleep(3_000); // the balancer checks each replica every second
    }
    await judge(run, 'service_unavailable', 'outcome_unknown');
    expect([run.evidence.lostConnections, run.load.refusedConnections]).toEqual([0, 0]);
  });

  it.each(['pooler', 'replica'])('answer 503 at worst, and nothing wrong, when a %s is killed', async (service) => {
    const [container = ''] = await project.containers(service);
    const run = await startJudgedLoad(database, [balanced, direct], project.apiKey);
    await sleep(1_000);
    // The balancer closes the connection of a client whose request the killed replica had taken.
    if (service === 'replica') balanced.killedAt = performance.now() + 1_000;
    await docker('kill', container);
    await docker('start', container);
    await becomesReady(`http://127.0.0.1:${balanced.port}/health/ready`);
    await sleep(2_000); // the load goes on
    await judge(run);
  });

  it('use a role that can neither change the schema nor remove stock or history', async () => {
    const [row] = await database.sql<{ may: string }>(
      `SELECT concat_ws(',', has_schema_privilege('inventory_pooled', 'public', 'CREATE'),
              has_table_privilege('inventory_pooled', 'inventory_item', 'INSERT, DELETE, TRUNCATE'),
              has_table_privilege('inventory_pooled', 'stock_change', 'UPDATE, DELETE, TRUNCATE')) AS may`,
    );
    expect(row?.may).toBe('f,f,f');
  });
});

async function target(service: string, containerPort: number) {
  const port = await project.port(service, containerPort);
  await becomesReady(`http://127.0.0.1:${port}/health/ready`);
  return { name: service, port, killedAt: -Infinity };
}

/** @param never codes that no response may have */
async function judge(run: JudgedLoad, ...never: string[]): Promise<void> {
  await run.stop();
  expect(run.evidence.examples).toEqual([]);
  const refused = run.refusals.filter((refusal) => never.some((code) => refusal.includes(code)));
  expect(refused.slice(0, 8)).toEqual([]);
}
