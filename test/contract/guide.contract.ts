import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { type Server, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type TestService, startService } from '../support/service.ts';
import { areHere } from './tools.ts';

const guide = await readFile(new URL('../../docs/clients.md', import.meta.url), 'utf8');

const LANGUAGES = [
  {
    fence: 'js',
    file: 'client.mjs',
    command: process.execPath,
    said: "{ petId: 1n, quantity: 13, status: 'available' }\n",
  },
  {
    fence: 'python',
    file: 'client.py',
    command: 'python3',
    said: "{'petId': 1, 'quantity': 13, 'status': 'available'}\n",
  },
  { fence: 'go', file: 'client.go', command: 'go', said: '{1 13 available}\n' },
];

/** What happens to the first update between client and service. */
type Mishap =
  'none' | 'unavailable' | 'outcome unknown, not applied' | 'outcome unknown, applied' | 'connection lost, applied';

describe('docs/clients.md', () => {
  let service: TestService;
  let proxy: Server;
  let folder: string;
  let mishap: Mishap;
  let updates: number;

  beforeAll(async () => {
    service = await startService();
    folder = await mkdtemp(join(tmpdir(), 'inventory-guide-'));
    proxy = await startProxy();
  });
  beforeEach(async () => {
    await service.stock([1, 12]);
    mishap = 'none';
    updates = 0;
  });
  afterAll(async () => {
    proxy.close();
    await service.stop();
    await rm(folder, { recursive: true });
  });

  describe.each(LANGUAGES)('$fence', ({ fence, file, command, said }) => {
    it.for<Mishap>(['none', 'unavailable', 'outcome unknown, not applied'])(
      'updates once; mishap: %s',
      async (what, context) => {
        if (!(await areHere(command))) context.skip(`${command} is not here`);
        mishap = what;
        expect(await program()).toBe(said);
        expect(await quantity()).toBe(13);
        expect(updates).toBe(what === 'none' ? 1 : 2);
      },
    );

    // Applied by this client or another one, which did the same: nobody can tell.
    it.for<Mishap>(['outcome unknown, applied', 'connection lost, applied'])(
      'says that it does not know whether its update was applied; mishap: %s',
      async (what, context) => {
        if (!(await areHere(command))) context.skip(`${command} is not here`);
        mishap = what;
        await expect(program()).rejects.toThrow(/outcome_?unknown/i);
        expect(await quantity()).toBe(13);
        expect(updates).toBe(2);
      },
    );

    async function program(): Promise<string> {
      const [code = ''] = snippets(fence);
      await writeFile(join(folder, file), code);
      return run(command, command === 'go' ? ['run', file] : [file]);
    }
  });

  it('curl keeps a list that has not changed, and updates once although the outcome was unknown', async () => {
    const [list = '', update = ''] = snippets('sh');
    for (let time = 0; time < 2; time++) {
      await run('bash', ['-c', list]);
      expect(await readFile(join(folder, 'list.json'), 'utf8')).toBe(
        '[{"petId":1,"quantity":12,"status":"available"}]',
      );
    }
    mishap = 'outcome unknown, applied';
    const answers = await run('bash', ['-c', update]);
    expect(answers).toContain('HTTP/1.1 412');
    expect(answers).toMatch(/^etag: "available-11"\r$/im);
    expect(await quantity()).toBe(11);
  });

  function snippets(fence: string): string[] {
    return [...guide.matchAll(new RegExp(`^\`\`\`${fence}\\n(.*?)^\`\`\``, 'gms'))].map(([, code = '']) => code);
  }

  async function run(command: string, args: readonly string[]): Promise<string> {
    const { port } = proxy.address() as AddressInfo;
    const env = { ...process.env, INVENTORY_URL: `http://127.0.0.1:${port}/v1`, INVENTORY_KEY: service.key };
    return (await promisify(execFile)(command, args, { cwd: folder, env })).stdout;
  }

  async function quantity(): Promise<unknown> {
    return (await service.sql('SELECT quantity FROM inventory_item'))[0]?.['quantity'];
  }

  /** Passes everything on to the service; only of the first update the service or the client may not hear. */
  async function startProxy(): Promise<Server> {
    const server = createServer((request, response) => {
      void (async () => {
        const present = request.method === 'PATCH' && ++updates === 1 ? mishap : 'none';
        const chunks = (await request.toArray()) as Buffer[];
        const pass = () =>
          fetch(`${service.url}${request.url ?? ''}`, {
            method: request.method ?? 'GET',
            headers: { ...(request.headers as Record<string, string>), 'accept-encoding': 'identity' },
            ...(chunks.length > 0 ? { body: Buffer.concat(chunks) } : {}),
          });
        const refuse = (code: string) =>
          response.writeHead(503, { 'Retry-After': '0' }).end(JSON.stringify({ code, message: code, status: 503 }));
        if (present === 'unavailable') return refuse('service_unavailable');
        if (present === 'outcome unknown, not applied') return refuse('outcome_unknown');
        const answer = await pass();
        if (present.startsWith('outcome unknown')) return refuse('outcome_unknown');
        if (present === 'connection lost, applied') return response.destroy();
        return response
          .writeHead(answer.status, Object.fromEntries(answer.headers))
          .end(Buffer.from(await answer.arrayBuffer()));
      })();
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return server;
  }
});
