import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { freePort } from '../../dev/free-port.ts';
import { type TestService, startService } from '../support/service.ts';
import { documentFile, tool } from './tools.ts';

describe('the service behind a Prism proxy, which answers 500 to whatever breaks the document', () => {
  let service: TestService;
  let prism: ChildProcess;
  let url: string;

  beforeAll(async () => {
    service = await startService();
    await service.stock([1, 12], [Number.MAX_SAFE_INTEGER, 7, 'pending']); // Prism takes an int64 for what JavaScript holds
    const port = await freePort();
    url = `http://127.0.0.1:${port}`;
    const args = ['proxy', documentFile, `${service.url}/v1`, '--errors', '-p', String(port)];
    prism = spawn(process.execPath, [tool('prism'), ...args], { stdio: 'ignore' });
    await vi.waitFor(() => fetch(url), { timeout: 30_000, interval: 100 });
  });
  afterAll(async () => {
    prism.kill();
    await once(prism, 'exit');
    await service.stop();
  });

  async function call(path: string, init: { method?: string; headers?: Record<string, string>; body?: string } = {}) {
    const headers = { Authorization: `Bearer ${service.key}`, 'Content-Type': 'application/json', ...init.headers };
    const answer = await fetch(url + path, { ...init, headers });
    expect(answer.headers.get('sl-violations')).toBeNull();
    return answer;
  }

  it('lists', async () => {
    const list = await call('/inventory');
    expect(list.status).toBe(200);
    const again = await call('/inventory', { headers: { 'If-None-Match': list.headers.get('etag') ?? '' } });
    expect(again.status).toBe(304);
  });

  it('updates', async () => {
    const headers = { 'If-Match': '"available-12"' };
    const answer = await call('/inventory/1', { method: 'PATCH', body: '{"quantity":13}', headers });
    expect(answer.status).toBe(200);
    expect(await answer.json()).toEqual({ petId: 1, quantity: 13, status: 'available' });
  });

  it.each([
    ['a key that is none', 401, '/inventory/1', { Authorization: 'Bearer none' }],
    ['a pet that is not there', 404, '/inventory/404', {}],
    ['a precondition that does not hold', 412, '/inventory/1', { 'If-Match': '"sold-0"' }],
  ])('refuses %s', async (_what, status, path, headers) => {
    const answer = await call(path, { method: 'PATCH', body: '{"quantity":14}', headers });
    expect(answer.status).toBe(status);
    expect(await answer.json()).toMatchObject({ status });
  });
});
