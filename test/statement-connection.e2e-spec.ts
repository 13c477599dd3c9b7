import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { Client, ClientBase } from 'pg';
import { expect, it, onTestFinished, vi } from 'vitest';
import { cut, NotApplied, type Prepare, StatementConnection } from '../src/lib/postgres/index.ts';
import { errors, sessionOf } from '../src/database-errors.ts';
import { readSettings } from '../src/settings.ts';
import { Database, createDatabase } from './support/database.ts';

async function openTo(prepare?: Prepare, database?: Database): Promise<StatementConnection> {
  const { url } = database ?? (await createDatabase());
  const settings = readSettings({ DATABASE_URL: url, REQUEST_DEADLINE_MS: '9000' }); // for a busy machine
  const connection = new StatementConnection(sessionOf(settings, 'test'), errors, prepare);
  onTestFinished(() => connection.close());
  return connection;
}
const run = (connection: StatementConnection, sql: string) => connection.run({ sql, values: [] });

it('a connection is open before its first statement, keeps its session after a refused value, and replaces it after another failure', async () => {
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
  expect(await run(connection, 'SELECT WHERE false')).toEqual([]);
  expect(await session()).toEqual(second);
  await expect(connection.run({ sql: 'SELECT WHERE false', values: [], isEmptyIfLate: true })).rejects.toThrow(
    new NotApplied('the database read the statement after its deadline'),
  );
  expect(await session()).not.toEqual(second);
});

it('a session is replaced between two statements after half an hour', async () => {
  const database = await createDatabase();
  const connection = await openTo(undefined, database);
  const session = async () => (await run(connection, 'SELECT pg_backend_pid()'))[0]?.[0];
  const first = await session();
  const now = performance.now.bind(performance);
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + 1_740_000);
  onTestFinished(() => clock.mockRestore());
  expect(connection.open()).toBeUndefined();
  expect(await session()).toBe(first);
  clock.mockImplementation(() => now() + 1_800_000);
  await connection.open();
  expect(await session()).not.toBe(first);
  const sessions = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'inventory test'`;
  await expect.poll(() => database.sql(sessions)).toHaveLength(1);
});

it('a statement without an answer is given up, with its session', async () => {
  const { url } = await createDatabase();
  const settings = readSettings({ DATABASE_URL: url, REQUEST_DEADLINE_MS: '2000' });
  const connection = new StatementConnection(sessionOf(settings, 'test'), errors);
  onTestFinished(() => connection.close());
  const [[session] = []] = await run(
    connection,
    `SELECT pg_backend_pid(), set_config('statement_timeout', '0', false)`,
  );
  const from = performance.now();
  await expect(run(connection, 'SELECT pg_sleep(60)')).rejects.toThrow(/^Query read timeout$/);
  expect(performance.now() - from).toBeGreaterThanOrEqual(1_600);
  expect(performance.now() - from).toBeLessThan(10_000);
  expect(await run(connection, 'SELECT pg_backend_pid()')).not.toEqual([[session]]);
});

it('a statement is not applied whose session ends before it is sent', async () => {
  const connection = await openTo((client) => void (client as Client).end());
  await expect(run(connection, 'SELECT 1')).rejects.toThrow(
    new NotApplied('no database session could be used; nothing was sent'),
  );
});

it('a statement is not applied when no session can be had', async () => {
  const connection = await openTo(undefined, new Database('postgresql://127.0.0.1:1/x'));
  await expect(run(connection, 'SELECT 1')).rejects.toThrow(
    new NotApplied('no database session could be used; nothing was sent'),
  );
});

it('a session that has ended leaves nothing in memory', async () => {
  const connections: WeakRef<object>[] = [];
  const note: Prepare = (client) => connections.push(new WeakRef((client as Client).connection));
  const connection = await openTo(note);
  for (let turn = 0; turn < 10; turn++) await run(connection, 'SELECT nowhere').catch(() => undefined); // ends it
  expect(connections).toHaveLength(10);
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const left = () => {
    collect();
    return connections.filter((each) => each.deref() !== undefined).length;
  };
  await expect.poll(left).toBeLessThan(3); // the last ones may be closing still
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

it('statements share one session, survive its warnings, and get a new one after it was cut', async () => {
  const database = await createDatabase();
  await database.sql(
    `CREATE FUNCTION warn() RETURNS void LANGUAGE plpgsql AS $$BEGIN RAISE WARNING 'of a trigger'; END$$`,
  );
  const sessions: ClientBase[] = [];
  const connection = await openTo((client) => sessions.push(client), database);
  for (let turn = 0; turn < 2; turn++) expect(await run(connection, 'SELECT warn()')).toEqual([['']]);
  const lost = run(connection, 'SELECT pg_sleep(20)').catch(String);
  const underWay = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`;
  await expect.poll(() => database.sql(underWay)).toHaveLength(1);
  expect(sessions).toHaveLength(1);
  sessions.splice(0).forEach(cut); // Vitest fails the run if an error event has no listener
  expect(await lost).toBe('Error: Connection terminated unexpectedly');
  await run(connection, 'SELECT 1');
  const ended = new Promise<void>((resolve) => sessions[0]?.once('end', resolve));
  await database.cutSessions();
  await ended;
  expect(await run(connection, 'SELECT 1')).toEqual([['1']]);
});

it('a bug in what begins a session is not taken for a failure of the database', async () => {
  const bug = new TypeError('a bug');
  const connection = await openTo(() => Promise.reject(bug));
  await expect(run(connection, 'SELECT 1')).rejects.toBe(bug);
});

it('a connection that is closed ends its session after the statement under way, and opens no other for long', async () => {
  const database = await createDatabase();
  const connection = await openTo(undefined, database);
  const underWay = run(connection, 'SELECT 1 FROM pg_sleep(1)');
  const sessions = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'inventory test'`;
  await expect.poll(() => database.sql(`${sessions} AND wait_event = 'PgSleep'`)).toHaveLength(1);
  await connection.close();
  expect(await underWay).toEqual([['1']]);
  await expect(run(connection, 'SELECT 1')).rejects.toThrow(NotApplied);
  await expect.poll(() => database.sql(sessions)).toEqual([]);
});
