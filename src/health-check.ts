import { get } from 'node:http';

/** Where a process of this machine reaches a service that listens on all addresses. */
const LOOPBACK: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': 'localhost', '': 'localhost' };

/**
 * Whether the service of this machine answers a path with 200. An agent of its own keeps the request away from the
 * proxy that the environment names (NODE_USE_ENV_PROXY, HTTP_PROXY).
 *
 * @param timeoutMs for the whole request
 */
export function isHealthy(host: string, port: number, path: string, timeoutMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const request = get({
      host: LOOPBACK[host] ?? host,
      port,
      path,
      agent: false,
      maxHeaderSize: 16_384, // as the service has it: NODE_OPTIONS may say less
      headers: { Host: 'localhost', Connection: 'close' },
      signal: AbortSignal.timeout(timeoutMs),
    });
    request.on('response', (response) => {
      response.resume();
      resolve(response.statusCode === 200);
    });
    request.on('error', () => resolve(false));
  });
}

/* The health check of image and compose: `node dist/health-check.js /health/live`. Exit code 0 if the answer is 200. */
if (process.argv[1]?.endsWith('health-check.js')) {
  const { HOST = '0.0.0.0', PORT = '3000' } = process.env;
  const isOk = await isHealthy(HOST, Number(PORT), process.argv[2] ?? '/health/live', 2_500);
  process.exit(isOk ? 0 : 1);
}
