import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SEMI_SPACE } from '../../dev/build.ts';
import { Connection } from '../support/http-client.ts';
import { becomesHealthy, becomesReady, ComposeProject, docker } from './compose-project.ts';

const project = new ComposeProject(['docker-compose.yml']);
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

/** Of the first pet of the demo stock. @returns how the list has it from then on */
async function setQuantity(quantity: number): Promise<string> {
  const answer = await request('/inventory/1', { method: 'PATCH', body: JSON.stringify({ quantity }) });
  const item = `{"petId":1,"quantity":${quantity},"status":"available"}`;
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

  it('becomes healthy', async () => {
    const [container = ''] = await project.containers('inventory');
    await becomesHealthy(container);
  });

  it('answers every request of busy connections when it is stopped, then exits with 0', async () => {
    const [container = ''] = await project.containers('inventory');
    const connections = await Promise.all(Array.from({ length: 32 }, () => Connection.open(port)));
    const clients = connections.map(useUntilClosed);
    await sleep(500);
    const start = performance.now();
    await docker('stop', '--time', '30', container);
    expect(performance.now() - start).toBeLessThan(5_000);
    await Promise.all(clients);
    expect(await docker('inspect', '--format', '{{.State.ExitCode}}', container)).toBe('0');
  });
});

/** Sends lists and updates in turn, each of which must succeed, until a response says that it is the connection's last. */
async function useUntilClosed(connection: Connection): Promise<void> {
  const headers = { authorization: `Bearer ${project.apiKey}`, 'content-type': 'application/json' };
  for (let quantity = 0; connection.reusable; quantity++) {
    const list = { target: '/v1/inventory', headers };
    const update = { method: 'PATCH', target: '/v1/inventory/1', headers, body: `{"quantity":${quantity}}` };
    expect(await connection.request(quantity % 2 === 0 ? list : update)).toMatchObject({ status: 200 });
  }
  expect(connection.closedUnannounced).toBe(false);
}
