import { expect, it, onTestFinished } from 'vitest';
import { createDatabase } from '../../../test/support/database.ts';
import { ConnectionPool } from './connection-pool.ts';

const SESSION = { program: 'test', purpose: 'pool', deadlineMs: 2_500 };

it('ends a session that comes back with an open transaction', async () => {
  const database = await createDatabase({ migrated: false });
  const pool = new ConnectionPool({ ...SESSION, databaseUrl: database.url }, 1);
  onTestFinished(() => pool.end());
  const session = await pool.connect();
  await session.query('BEGIN');
  session.release();
  const { rows } = await pool.query<{ begun: boolean }>('SELECT now() < statement_timestamp() AS begun');
  expect(rows).toEqual([{ begun: false }]);
  const open = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'`;
  await expect.poll(() => database.sql(open)).toEqual([]);
});

it('ends a session whose kept plan no longer fits the tables', async () => {
  const database = await createDatabase({ migrated: false });
  await database.sql('CREATE TABLE thing (id int)');
  const pool = new ConnectionPool({ ...SESSION, databaseUrl: database.url }, 1);
  onTestFinished(() => pool.end());
  /** As Prisma does, it gives the session back without its error. */
  async function list() {
    const session = await pool.connect();
    return session.query({ name: 'list', text: 'SELECT * FROM thing' }).finally(() => session.release());
  }
  await list();
  await database.sql('ALTER TABLE thing ADD note text');
  await expect(list()).rejects.toMatchObject({ code: '0A000' });
  expect((await list()).rows).toEqual([]);
});
