import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type TestService, startService } from '../../test/support/service.ts';
import { listText } from '../../test/support/stock.ts';
import { areHere } from './tools.ts';

const guide = await readFile(new URL('../../docs/clients.md', import.meta.url), 'utf8');

const errorBody = (status: number, code: string) => JSON.stringify({ code, message: code, status });

/** Faults of the first update, between client and service: what the client gets, if it gets a response. */
const MISHAPS = {
  'late request, not applied': [408, errorBody(408, 'request_timeout')],
  'limit, not applied': [429, errorBody(429, 'too_many_requests')],
  'unavailable, not applied': [503, errorBody(503, 'service_unavailable')],
  'outcome unknown, not applied': [503, errorBody(503, 'outcome_unknown')],
  'outcome unknown, applied': [503, errorBody(503, 'outcome_unknown')],
  'failure of the service, applied': [500, errorBody(500, 'internal_error')],
  "a proxy's 502 in HTML, applied": [502, '<h1>Bad Gateway</h1>'],
  "a proxy's 503 in JSON, applied": [503, '{"message":"Service Unavailable"}'],
  "a proxy's 504 without a body, applied": [504, ''],
  'connection lost, applied': undefined,
} as const;
type Mishap = keyof typeof MISHAPS;

describe('docs/clients.md and docs/clients/', () => {
  let service: TestService;
  let folder: string;
  let mishap: Mishap | undefined;
  let updates: number;

  const proxy = createServer((request, response) => void pass(request, response));
  beforeAll(async () => {
    service = await startService();
    folder = await mkdtemp(join(tmpdir(), 'inventory-guide-'));
    await once(proxy.listen(0, '127.0.0.1'), 'listening');
  });
  beforeEach(async () => {
    await service.stock([1, 12]);
    mishap = undefined;
    updates = 0;
  });
  afterAll(async () => {
    proxy.close();
    await rm(folder, { recursive: true });
  });

  describe.each([
    ['client.mjs', process.execPath, [], "{ petId: 1n, quantity: 13, status: 'available' }\n"],
    ['client.py', 'python3', [], "{'petId': 1, 'quantity': 13, 'status': 'available'}\n"],
    ['client.go', 'go', ['run'], '{1 13 available}\n'],
  ] as const)('%s', (file, command, args, printed) => {
    it.for([undefined, ...(Object.keys(MISHAPS) as Mishap[])])('updates once; mishap: %s', async (what, context) => {
      if (!(await areHere(command))) context.skip(`${command} is not here`);
      mishap = what;
      expect(await run(command, ...args, join(import.meta.dirname, '../../docs/clients', file))).toBe(printed);
      expect(updates).toBe(what === undefined ? 1 : 2);
      expect(await service.sql('SELECT quantity FROM inventory_item')).toEqual([{ quantity: 13 }]);
      const changes = await service.sql('SELECT quantity_after FROM stock_change ORDER BY id DESC LIMIT 2');
      expect(changes).toEqual([{ quantity_after: 13 }, { quantity_after: 12 }]);
    });
  });

  it('curl keeps its list if there is no new one, and updates once although the outcome was unknown', async () => {
    const [list = '', update = ''] = [...guide.matchAll(/^```sh\n(.*?)^```/gms)].map(([, code = '']) => code);
    const isKept = async () => expect(await readFile(join(folder, 'list.json'), 'utf8')).toBe(listText([1, 12]));
    for (let time = 0; time < 2; time++) {
      await run('bash', '-c', list);
      await isKept();
    }
    await expect(run('bash', '-c', `INVENTORY_KEY=unknown; ${list}`)).rejects.toThrow('401');
    await isKept();
    mishap = 'outcome unknown, applied';
    const answers = await run('bash', '-c', update);
    expect(answers).toContain('HTTP/1.1 200');
    expect(answers).toMatch(/^idempotent-replayed: true\r$/im);
    expect(await service.sql('SELECT quantity FROM inventory_item')).toEqual([{ quantity: 11 }]);
  });

  async function run(command: string, ...args: string[]): Promise<string> {
    const { port } = proxy.address() as AddressInfo;
    const env = { ...process.env, INVENTORY_URL: `http://127.0.0.1:${port}/v1`, INVENTORY_KEY: service.key };
    return (await promisify(execFile)(command, args, { cwd: folder, env })).stdout;
  }

  /** Passes a request on to the service. The mishap changes the first update only. */
  async function pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const present = request.method === 'PATCH' && ++updates === 1 ? mishap : undefined;
    const body = Buffer.concat((await request.toArray()) as Buffer[]);
    if (present?.endsWith('not applied')) return void fail(present, response);

    const answer = await fetch(`${service.url}${request.url ?? ''}`, {
      method: request.method ?? 'GET',
      headers: { ...(request.headers as Record<string, string>), 'accept-encoding': 'identity' },
      ...(body.length > 0 && { body }),
    });
    if (present) return void fail(present, response);
    response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(Buffer.from(await answer.arrayBuffer()));
  }

  function fail(what: Mishap, response: ServerResponse): unknown {
    const [status, body] = MISHAPS[what] ?? [];
    return status ? response.writeHead(status, { 'Retry-After': '0' }).end(body) : response.destroy();
  }
});
