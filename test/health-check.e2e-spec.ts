import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { isHealthy } from '../src/health-check.ts';

/** Starts a server that is live and not ready. @returns its port */
async function listen(host: string): Promise<number> {
  const server = createServer({ maxHeaderSize: 16_384 }, ({ url }, answer) =>
    answer.writeHead(url === '/health/live' ? 200 : 503).end(),
  );
  onTestFinished(() => void server.close());
  await once(server.listen(0, host), 'listening');
  return (server.address() as AddressInfo).port;
}

it.each(['0.0.0.0', '::', '', '127.0.0.1', '::1', 'localhost'])(
  'the health check reaches a service on HOST=%s',
  async (host) => {
    const port = await listen(host);
    const check = (path: string) => isHealthy(host, port, path, 2_500);
    expect(await Promise.all([check('/health/live'), check('/health/ready')])).toEqual([true, false]);
  },
);

it('the health check heeds no setting of a proxy or of Node.js, and fails where nothing listens', async () => {
  const proxy = {
    NODE_USE_ENV_PROXY: '1',
    HTTP_PROXY: 'http://127.0.0.1:9',
    NODE_OPTIONS: '--max-http-header-size=10',
  };
  const env = { HOST: '127.0.0.1', PORT: String(await listen('127.0.0.1')), ...proxy, NO_PROXY: 'example.com' };
  const check = async (settings: NodeJS.ProcessEnv) => {
    const args = ['dist/health-check.js', '/health/live'];
    const child = spawn(process.execPath, args, { env: { ...env, ...settings }, stdio: 'inherit' });
    return ((await once(child, 'exit')) as [number])[0];
  };
  expect([await check({}), await check({ PORT: '9' })]).toEqual([0, 1]);
});

it('the image and compose use the health check', () => {
  expect(readFileSync('Dockerfile', 'utf8')).toContain('CMD ["node", "dist/health-check.js", "/health/live"]');
  expect(readFileSync('docker-compose.yml', 'utf8')).toContain(
    'test: [CMD, node, dist/health-check.js, /health/ready]',
  );
});
