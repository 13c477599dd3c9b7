import { once } from 'node:events';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { Drain } from '../src/http/drain.ts';
import { Metrics } from '../src/operations/metrics.ts';
import { type TestService, startService } from './support/service.ts';

const drain = ({ app, server }: TestService) => app.get(Drain).empty(server, () => app.get(Metrics).activeRequests > 0);

describe('the drain', () => {
  it('lets a slow reader have its list to the end', async () => {
    const service = await startService();
    try {
      await service.sql('ALTER TABLE inventory_item DISABLE TRIGGER USER'); // without a history, for speed
      await service.sql(`INSERT INTO inventory_item SELECT n, 1, 'available' FROM generate_series(1, 300000) AS n`);
      const socket = connect(service.port, '127.0.0.1');
      socket.write(`GET /v1/inventory HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${service.key}\r\n\r\n`);
      await once(socket, 'readable');
      const drained = drain(service);
      await pause(2_000); // longer than idle connections are left
      const response = await text(socket);
      expect(response.length - response.indexOf('\r\n\r\n') - 4).toBe(
        Number(/content-length: (\d+)/i.exec(response)?.[1]),
      );
      expect(await drained).toBe(true);
    } finally {
      await service.stop();
    }
  });

  it('does not wait for a request that never arrives', async () => {
    const service = await startService({ limits: { headMs: 300 } });
    try {
      const socket = connect(service.port, '127.0.0.1');
      await once(socket, 'connect');
      socket.write('GET /v1/inventory HTTP/1.1\r\nHost: half\r\nAuth');
      const answer = text(socket);
      const startedAt = performance.now();
      expect(await drain(service)).toBe(true);
      expect(performance.now() - startedAt).toBeLessThan(4_000);
      expect(await answer).toMatch(/^HTTP\/1\.1 408 .*"code":"request_timeout"/s);
    } finally {
      await service.stop();
    }
  });

  it('gives requests under way their whole bound, however long the delay before', async () => {
    const service = await startService({
      settings: { DRAIN_DELAY_MS: '2000', DRAIN_TIMEOUT_MS: '2000', REQUEST_DEADLINE_MS: '9000' },
    });
    try {
      await service.stock([1, 1]);
      const holder = await service.database.session('SELECT FROM inventory_item WHERE pet_id = 1 FOR UPDATE');
      const drained = drain(service);
      const ready = await fetch(`${service.url}/health/ready`);
      expect([ready.status, ready.headers.get('connection')]).toEqual([503, 'close']);
      await pause(1_000);
      const updated = service.update(1, 2);
      await pause(1_800); // the bound would have ended by now, had it begun before the delay
      await holder.query('ROLLBACK');
      await holder.end();
      expect((await updated).status).toBe(200);
      expect(await drained).toBe(true);
    } finally {
      await service.stop();
    }
  });
});
