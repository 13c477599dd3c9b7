import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ConnectionLost, Connection } from '../support/http-client.ts';
import { becomesHealthy, becomesReady, ComposeProject, docker } from './compose-project.ts';

interface Item {
  petId: number;
  quantity: number;
  status: string;
}

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

async function list(): Promise<Item[]> {
  const answer = await request('/inventory');
  expect(answer.status).toBe(200);
  return (await answer.json()) as Item[];
}

async function someItem(): Promise<Item> {
  const [item] = await list();
  if (!item) throw new Error('the store is empty');
  return item;
}

function setQuantity(petId: number, quantity: number): Promise<Response> {
  return request(`/inventory/${petId}`, { method: 'PATCH', body: JSON.stringify({ quantity }) });
}

describe('docker compose up', () => {
  it('lists the demo stock with the key of the environment', async () => {
    const items = await list();
    expect(items.length).toBeGreaterThan(20);
    expect(new Set(items.map((item) => item.status))).toEqual(new Set(['available', 'pending', 'sold']));
  });

  it('sets a quantity', async () => {
    const item = await someItem();
    const answer = await setQuantity(item.petId, 4711);
    expect([answer.status, await answer.json()]).toEqual([200, { ...item, quantity: 4711 }]);
    expect(await list()).toContainEqual({ ...item, quantity: 4711 });
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
    const { petId } = await someItem();
    await setQuantity(petId, 815);
    await project.compose(['down', '--timeout', '10']);
    await project.compose(['up', '--detach']);
    await findService();
    expect(await list()).toContainEqual(expect.objectContaining({ petId, quantity: 815 }));
  });
});

describe('docker compose up on a store that was emptied', () => {
  it('leaves it empty', async () => {
    await project.exec('postgres', 'psql', '-U', 'inventory', '-c', 'DELETE FROM inventory_item');
    await project.compose(['up', '--detach']);
    expect(await list()).toEqual([]);
    await project.exec('inventory', 'inventory', 'import', 'prisma/demo-stock.csv');
  });
});

describe('the container', () => {
  it('runs node as process 1, not as root, on a root it cannot write', async () => {
    const commandLine = await project.exec('inventory', 'cat', '/proc/1/cmdline');
    expect(commandLine.split('\0').slice(0, 2)).toEqual(['node', 'dist/main.js']);
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
    const outcomes = await Promise.all(clients);
    expect(outcomes.filter((outcome) => outcome instanceof ConnectionLost)).toEqual([]);
    expect(new Set(outcomes)).toEqual(new Set(['closed by an answer']));
    expect(await docker('inspect', '--format', '{{.State.ExitCode}}', container)).toBe('0');
  });
});

/** Sends request after request, lists and updates in turn, until an answer says that it is the connection's last. */
async function useUntilClosed(connection: Connection): Promise<unknown> {
  const headers = { authorization: `Bearer ${project.apiKey}`, 'content-type': 'application/json' };
  const { petId } = await someItem();
  try {
    for (let quantity = 0; connection.reusable; quantity++) {
      const answer =
        quantity % 2 === 0
          ? await connection.request({ target: '/v1/inventory', headers })
          : await connection.request({
              method: 'PATCH',
              target: `/v1/inventory/${petId}`,
              headers,
              body: `{"quantity":${quantity}}`,
            });
      if (answer.status !== 200) return answer;
    }
    return 'closed by an answer';
  } catch (error) {
    return error;
  }
}
