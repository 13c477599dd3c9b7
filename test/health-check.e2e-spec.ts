import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';

const proxy = { NODE_USE_ENV_PROXY: '1', HTTP_PROXY: 'http://127.0.0.1:9', HTTPS_PROXY: 'http://127.0.0.1:9' };

/** @returns the exit code of the check for a server that is live and not ready */
async function check(host: string, path: string, settings: NodeJS.ProcessEnv = {}): Promise<unknown> {
  const server = createServer({ maxHeaderSize: 16_384 }, ({ url }, answer) =>
    answer.writeHead(url === '/health/live' ? 200 : 503).end(),
  );
  onTestFinished(() => void server.close());
  await once(server.listen(0, host), 'listening');
  const env = { HOST: host, PORT: String((server.address() as AddressInfo).port), ...proxy, ...settings };
  const child = spawn(process.execPath, ['dist/health-check.js', path], { env, stdio: 'inherit' });
  const [code] = (await once(child, 'exit')) as [number];
  return code;
}

it.each(['0.0.0.0', '::', '', '127.0.0.1', '::1', 'localhost'])(
  'the health check reaches a service on HOST=%s, whatever proxy the environment names',
  async (host) => {
    expect(await check(host, '/health/live')).toBe(0);
    expect(await check(host, '/health/ready')).toBe(1);
  },
);

it('the health check heeds no setting of a proxy or of Node.js, and fails where nothing listens', async () => {
  const live = (settings: NodeJS.ProcessEnv) => check('127.0.0.1', '/health/live', settings);
  expect(await live({ NO_PROXY: 'example.com', no_proxy: 'example.com' })).toBe(0);
  expect(await live({ NODE_OPTIONS: '--max-http-header-size=10' })).toBe(0);
  expect(await live({ PORT: '9' })).toBe(1);
});

it('the image and compose use the health check', () => {
  expect(readFileSync('Dockerfile', 'utf8')).toContain('CMD ["node", "dist/health-check.js", "/health/live"]');
  expect(readFileSync('docker-compose.yml', 'utf8')).toContain(
    'test: [CMD, node, dist/health-check.js, /health/ready]',
  );
});
