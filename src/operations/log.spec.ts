import { prettyFactory } from 'pino-pretty';
import { describe, expect, it } from 'vitest';
import { terminalOptions } from './log.js';

const time = new Date(2026, 10, 21, 12, 10, 46).toISOString();

function shown(line: object): string {
  return prettyFactory({ ...terminalOptions, colorize: false })({ time, ...line });
}

describe('the log in a terminal', () => {
  it.each([
    [
      { level: 'info', status: 200, keyId: '4kd02hx9', requestId: '1f3c5a7b-0000-0000-0000-000000000000', bytes: 1 },
      '[12:10:46] INFO: request GET /v1/inventory 200 1.234 ms key 4kd02hx9 id 1f3c5a7b-0000-0000-0000-000000000000\n',
    ],
    [
      { level: 'warn', status: 401, code: 'unauthorized', reason: 'no_key', requestId: 'mine', address: '::1' },
      '[12:10:46] WARN: request GET /v1/inventory 401 unauthorized no_key 1.234 ms id mine\n',
    ],
  ])('has a line for a request with %j', (members, line) => {
    expect(shown({ msg: 'request', method: 'GET', route: '/v1/inventory', durationMs: 1.234, ...members })).toBe(line);
  });

  it('has other lines with their members, and errors with their stack', () => {
    expect(shown({ level: 'info', msg: 'listening', port: 3000 })).toBe('[12:10:46] INFO: listening {"port":3000}\n');
    const err = { type: 'Error', message: 'boom', stack: 'Error: boom\n    at here' };
    expect(shown({ level: 'error', msg: 'closing', err })).toMatch(/^\[12:10:46\] ERROR: closing[^]*boom[^]*at here/);
  });
});
