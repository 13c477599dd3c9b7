import type { Client } from 'pg';
import { expect, it, onTestFinished } from 'vitest';
import type { Prepare } from '../src/database/connection-config.ts';
import { NotApplied } from '../src/database/database-failure.ts';
import { StatementConnection } from '../src/database/statement-connection.ts';
import { readSettings } from '../src/settings.ts';
import { type Database, createDatabase } from './support/database.ts';

async function openTo(prepare?: Prepare, database?: Database): Promise<StatementConnection> {
  const { url } = database ?? (await createDatabase());
  const settings = readSettings({ DATABASE_URL: url, REQUEST_DEADLINE_MS: '9000' }); // for a busy machine
  const connection = new StatementConnection(settings, 'test', prepare);
  onTestFinished(() => connection.close());
  return connection;
}
const run = (connection: StatementConnection, sql: string) => connection.run({ sql, values: [] });

it('a connection is open before its first statement, and keeps its session unless a statement fails that refuses no value', async () => {
  const connection = await openTo();
  const opening = connection.open();
  expect(opening).toBeInstanceOf(Promise);
  await opening;
  expect(connection.open()).toBeUndefined();
  const session = () => run(connection, 'SELECT pg_backend_pid()');
  const first = await session();
  await expect(run(connection, 'SELECT 1 / 0')).rejects.toMatchObject({ code: '22012' });
  expect(await session()).toEqual(first);
  await expect(run(connection, 'SELECT nowhere')).rejects.toMatchObject({ code: '42703' });
  const second = await session();
  expect(second).not.toEqual(first);
  await expect(run(connection, 'SELECT WHERE false')).rejects.toThrow(
    new NotApplied('the database read the statement after its deadline'),
  );
  expect(await session()).not.toEqual(second);
});

it('a statement is not applied whose session ends before it is sent', async () => {
  const connection = await openTo((client) => void (client as Client).end());
  await expect(run(connection, 'SELECT 1')).rejects.toThrow(
    new NotApplied('no database session could be used; nothing was sent'),
  );
});

it('a statement is not applied that cannot be written', async () => {
  const connection = await openTo();
  const values = Object.defineProperty(['a'], 0, {
    get: () => {
      throw new Error('out of memory');
    },
  });
  await expect(connection.run({ sql: 'SELECT $1', values })).rejects.toMatchObject({
    message: 'no database session could be used; nothing was sent',
    cause: { message: 'out of memory' },
  });
  expect(await run(connection, 'SELECT 1')).toEqual([['1']]);
});

it('a session may end idle or during a statement, warns without a harm, and is the only one', async () => {
  const database = await createDatabase();
  await database.sql(
    `CREATE FUNCTION warn() RETURNS void LANGUAGE plpgsql AS $$BEGIN RAISE WARNING 'of a trigger'; END$$`,
  );
  const connection = await openTo(undefined, database);
  const session = () => run(connection, 'SELECT pg_backend_pid()');
  const [first, second] = await Promise.all([session(), session()]);
  expect(second).toEqual(first);
  await expect(run(connection, 'SELECT pg_terminate_backend(pg_backend_pid())')).rejects.toMatchObject({
    code: '57P01',
  });
  await session();
  await database.cutSessions(); // Vitest fails the run if an error event has no listener
  await expect.poll(() => run(connection, 'SELECT warn()').catch(String)).toEqual([['']]);
});

it('a bug in what begins a session is not taken for a failure of the database', async () => {
  const bug = new TypeError('a bug');
  const connection = await openTo(() => Promise.reject(bug));
  await expect(run(connection, 'SELECT 1')).rejects.toBe(bug);
});
