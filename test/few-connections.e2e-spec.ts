import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PrismaService } from '../src/database/prisma.service.ts';
import { createDatabase, type Database } from './support/database.ts';
import { ask } from './support/http-client.ts';
import { type TestService, startService } from './support/service.ts';

/** The service keeps its open connections, and gets no more. */
describe('while PostgreSQL gives no new connection', () => {
  const role = `shop_${randomBytes(8).toString('hex')}`;
  let database: Database;
  let service: TestService;

  beforeAll(async () => {
    database = await createDatabase();
    const url = new URL(database.url);
    Object.assign(url, { username: role, password: randomBytes(24).toString('hex') });
    await database.sql(
      `CREATE ROLE ${role} LOGIN PASSWORD '${url.password}' IN ROLE pg_read_all_data, pg_write_all_data`,
    );
    service = await startService({ databaseUrl: url.href });
    await database.sql(`INSERT INTO inventory_item VALUES (1, 1, 'available')`);
    await service.update(1, 2);
    await database.sql(`ALTER ROLE ${role} CONNECTION LIMIT 0`);
  });
  afterAll(async () => {
    await service.stop();
    await database.sql(`DROP ROLE ${role}`);
    await database.drop();
  });

  it('the service lists and is ready as soon as a used connection is free', async () => {
    const { pool } = service.app.get(PrismaService);
    const inUse = await Promise.all(Array.from({ length: pool.idleCount }, () => pool.connect()));
    const answers = Promise.all([service.list(), ask(service.port, { target: '/health/ready' })]);
    await pause(200);
    for (const connection of inUse) connection.release();
    expect((await answers).map(({ status }) => status)).toEqual([200, 200]);
  });

  it('the service keeps its idle connections', async () => {
    const { pool } = service.app.get(PrismaService);
    expect(pool.options.idleTimeoutMillis).toBe(0); // by default the driver ends them after 10 s
    await service.update(1, 3);
    expect((await service.list()).status).toBe(200);
  });
});
