import { prettyFactory } from 'pino-pretty';
import { describe, expect, it } from 'vitest';
import { terminalOptions } from './log-terminal.js';

const time = new Date(2026, 10, 21, 12, 10, 46).toISOString();
const request = { level: 'info', time, msg: 'request', method: 'GET', route: '/v1/inventory', status: 200 };

function shown(line: object, colorize = false): string {
  return prettyFactory({ ...terminalOptions, colorize })(line);
}

describe('the log in a terminal', () => {
  it.each([
    [
      { keyId: '4kd02hx9', durationMs: 1.234, bytes: 1_612, requestId: '1f3c5a7b-0000-0000-0000-000000000000' },
      '12:10:46 GET /v1/inventory 200 1.2 ms 1.6 kB key 4kd02hx9 req 1f3c5a7b…\n',
    ],
    [
      { status: 401, code: 'unauthorized', reason: 'no_key', durationMs: 0.31, requestId: 'mine' },
      '12:10:46 GET /v1/inventory 401 no_key 0.3 ms req mine\n',
    ],
  ])('has a line for a request with %j', (members, line) => {
    expect(shown({ ...request, ...members })).toBe(line);
  });

  it('never takes more than 100 columns for a request', () => {
    const longest = {
      method: 'UNSUBSCRIBE',
      route: '/v1/inventory/:petId',
      code: 'idempotency_key_reused',
      status: 409,
    };
    const line = shown({ ...request, ...longest, keyId: '4kd02hx9', durationMs: 123_456.7, requestId: 'x'.repeat(64) });
    expect(line).toHaveLength(101); // with the line break
  });

  it('has the status in colour, and nothing else in it', () => {
    const lines = [200, 404, 503].map((status) => shown({ ...request, status }, true));
    expect(lines.map((line) => /\[(\d+)m [2-5]\d\d/.exec(line)?.[1])).toEqual(['32', '33', '31']);
  });

  it('has other lines with their members, and errors with their stack', () => {
    expect(shown({ level: 'info', time, msg: 'listening', port: 3000 })).toBe('12:10:46 listening port=3000\n');
    const err = { type: 'Error', message: 'boom', stack: 'Error: boom\n    at here' };
    expect(shown({ level: 'error', time, msg: 'closing', err })).toMatch(/^12:10:46 ERROR closing[^]*boom[^]*at here/);
  });
});
