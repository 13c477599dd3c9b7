import { once } from 'node:events';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { Drain } from '../src/http/drain.ts';
import { startService } from './support/service.ts';

describe('the drain', () => {
  it('does not wait for a request that never arrives', async () => {
    const service = await startService({ settings: { HEADERS_TIMEOUT_MS: '300' } });
    try {
      const socket = connect(service.port, '127.0.0.1');
      await once(socket, 'connect');
      socket.write('GET /v1/inventory HTTP/1.1\r\nHost: half\r\nAuth');
      const answer = text(socket);
      const startedAt = performance.now();
      expect(await service.app.get(Drain).empty(service.server)).toBe(true);
      expect(performance.now() - startedAt).toBeLessThan(4_000);
      expect(await answer).toMatch(/^HTTP\/1\.1 408 .*"code":"request_timeout"/s);
    } finally {
      await service.stop();
    }
  });

  it('gives requests under way their whole bound, however long the delay before', async () => {
    const service = await startService({ settings: { DRAIN_DELAY_MS: '400', DRAIN_TIMEOUT_MS: '3000' } });
    try {
      const drained = service.app.get(Drain).empty(service.server);
      const answer = await fetch(`${service.url}/health/ready`);
      expect([answer.status, answer.headers.get('connection')]).toEqual([503, 'close']);
      expect(await drained).toBe(true);
    } finally {
      await service.stop();
    }
  });
});
