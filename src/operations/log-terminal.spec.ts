import { prettyFactory } from 'pino-pretty';
import { afterAll, describe, expect, it, vi } from 'vitest';
import { terminalOptions } from './log-terminal.ts';

vi.stubEnv('TZ', 'Asia/Kolkata');
afterAll(() => void vi.unstubAllEnvs());
const time = new Date(2026, 10, 21, 12, 10, 46).toISOString();
const request = { level: 'info', time, msg: 'request', method: 'GET', route: '/v1/inventory', status: 200 };

describe('the log in a terminal', () => {
  it.each([
    [
      {
        ...request,
        keyId: '4kd02hx9',
        durationMs: 1.234,
        bytes: 1_612,
        requestId: 'mine',
        address: '::1',
        forwardedFor: '::2',
        traceId: 'ab',
      },
      '[12:10:46] INFO: request GET /v1/inventory 200 1.234 4kd02hx9 mine\n',
    ],
    [
      { ...request, level: 'warn', status: 401, code: 'unauthorized', reason: 'no_key', durationMs: 0.31 },
      '[12:10:46] WARN: request GET /v1/inventory 401 no_key unauthorized 0.31\n',
    ],
    [{ level: 'info', time, msg: 'listening', port: 3000 }, '[12:10:46] INFO: listening {"port":3000}\n'],
  ])('shows %j in one line', (line, shown) => {
    expect(prettyFactory({ ...terminalOptions, colorize: false })(line)).toBe(shown);
  });
});
