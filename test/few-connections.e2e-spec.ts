import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { type BatchEnd, batchEnds } from '../src/lib/postgres/index.ts';
import { PrismaService } from '../src/prisma.service.ts';
import { Metrics } from '../src/operations/metrics.ts';
import { createDatabase } from './support/database.ts';
import { ask } from './support/http-client.ts';
import { startService } from './support/service.ts';

describe('while PostgreSQL gives no new connection', () => {
  it('the service keeps its idle connections, lists, and is ready as soon as a used connection is free', async () => {
    const role = `shop_${randomBytes(8).toString('hex')}`;
    const database = await createDatabase();
    const url = new URL(database.url);
    Object.assign(url, { username: role, password: randomBytes(24).toString('hex') });
    await database.sql(
      `CREATE ROLE ${role} LOGIN PASSWORD '${url.password}' IN ROLE pg_read_all_data, pg_write_all_data`,
    );
    onTestFinished(async () => {
      await database.sql(`DROP ROLE ${role}`);
    });
    const service = await startService({ databaseUrl: url.href, settings: { DATABASE_POOL_SIZE: '3' } });
    await database.sql(`INSERT INTO inventory_item VALUES (1, 1, 'available')`);
    await service.update(1, 2);
    await database.sql(`ALTER ROLE ${role} CONNECTION LIMIT 0`);
    const { pool } = service.app.get(PrismaService);
    expect(pool.options).toMatchObject({ max: 3, maxLifetimeSeconds: 1_800 }); // a new session has what was renewed: docs/operations.md
    expect(pool.options.idleTimeoutMillis).toBe(0); // by default the driver ends them after 10 s
    await expect.poll(() => pool.totalCount - pool.idleCount).toBe(0); // the service notes the use of the key beside the request
    const inUse = await Promise.all(Array.from({ length: pool.idleCount }, () => pool.connect()));
    expect(inUse).not.toEqual([]);
    const answers = Promise.all([service.list(), ask(service.port, { target: '/health/ready' })]);
    await pause(200); // until both have found no free connection; nothing shows that
    for (const connection of inUse) connection.release();
    expect((await answers).map(({ status }) => status)).toEqual([200, 200]);
    expect((await service.update(1, 3)).status).toBe(200);
    const names = `SELECT DISTINCT application_name AS name FROM pg_stat_activity
      WHERE usename = $1 AND application_name <> '' ORDER BY name`;
    const sessions = await database.sql(names, [role]);
    expect(sessions.map(({ name }) => name)).toEqual(['inventory key check', 'inventory pool', 'inventory updates']);
    const { registry } = service.app.get(Metrics);
    await service.app.close();
    const end: BatchEnd = { name: 'of another service', calls: [{}], beganAt: 0, durationMs: 1, failed: false };
    batchEnds.publish(end);
    expect(await registry.metrics()).not.toContain('of another service');
    await expect.poll(() => database.sessions()).toHaveLength(1); // the test's own
  });
});
