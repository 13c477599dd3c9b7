import { setImmediate } from 'node:timers/promises';
import { expect, it, onTestFinished, vi } from 'vitest';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { hasUnconfirmedCommit, withConnection, withPrisma } from '../../src/commands/connection.ts';
import { createDatabase } from '../support/database.ts';

it('a command takes one connection, and waits 5 s for a lock, 30 s for a statement, and 35 s for an answer', async () => {
  vi.stubEnv('DATABASE_URL', (await createDatabase()).url);
  onTestFinished(() => void vi.unstubAllEnvs().useRealTimers());
  const bounds = `SELECT current_setting('lock_timeout') AS lock, current_setting('statement_timeout') AS statement`;
  const expected = [{ lock: '5s', statement: '30s' }];
  expect(await withConnection('test', async (client) => (await client.query<object>(bounds)).rows)).toEqual(expected);
  await withPrisma('test', async (prisma) => {
    expect(await prisma.$queryRawUnsafe(bounds)).toEqual(expected);
    const session = () => prisma.$queryRaw`SELECT pg_backend_pid() AS pid`;
    const [one, other] = await Promise.all([session(), session()]);
    expect(one).toEqual(other);
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    let isUnderWay = true;
    const answer = prisma.$queryRaw`SELECT pg_sleep(20)::text`.finally(() => (isUnderWay = false));
    const refused = expect(answer).rejects.toThrow('Query read timeout');
    while (vi.getTimerCount() === 0) await setImmediate();
    await vi.advanceTimersByTimeAsync(34_999);
    expect(isUnderWay).toBe(true);
    await vi.advanceTimersByTimeAsync(1);
    await refused;
    vi.useRealTimers();
  });
});

it('a command survives that PostgreSQL ends its idle session', async () => {
  const database = await createDatabase();
  vi.stubEnv('DATABASE_URL', database.url);
  onTestFinished(() => void vi.unstubAllEnvs());
  const lost = withConnection('test', async (client) => {
    const ended = new Promise<void>((resolve) => client.once('end', resolve));
    await database.cutSessions();
    await ended;
    return client.query('SELECT');
  });
  await expect(lost).rejects.toThrow('not queryable'); // Vitest fails the run if an error event has no listener
});

it.each([
  ['a connection', 'refused', () => withConnection('test', () => Promise.resolve())],
  ['a connection of Prisma', 'refused', () => withPrisma('test', (prisma) => prisma.$queryRaw`SELECT`)],
  [
    'its connection to end',
    'done',
    (proxy: TcpProxy) => withConnection('test', () => Promise.resolve().then(() => proxy.silence())),
  ],
])('a command waits 5 s for %s, and then is %s', async (_, end, run) => {
  const proxy = new TcpProxy((await createDatabase()).url);
  vi.stubEnv('DATABASE_URL', await proxy.listen());
  const silence = vi.spyOn(proxy, 'silence');
  if (end === 'refused') proxy.silence();
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.unstubAllEnvs().useRealTimers());
  let isUnderWay = true;
  const outcome = run(proxy)
    .then(
      () => 'done',
      () => 'refused',
    )
    .finally(() => (isUnderWay = false));
  while (silence.mock.calls.length === 0 || vi.getTimerCount() === 0) await setImmediate();
  await vi.advanceTimersByTimeAsync(4_999);
  expect(isUnderWay).toBe(true);
  await vi.advanceTimersByTimeAsync(1);
  expect(await outcome).toBe(end);
});

it('a command ends without a wait, and takes no other warning for that of an unconfirmed commit', async () => {
  vi.stubEnv('DATABASE_URL', (await createDatabase()).url);
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.unstubAllEnvs().useRealTimers());
  const warning = `DO $$ BEGIN RAISE WARNING 'of a trigger'; END $$`;
  await withConnection('test', (client) => client.query(warning));
  await withPrisma('test', (prisma) => prisma.$executeRawUnsafe(warning));
  expect([vi.getTimerCount(), hasUnconfirmedCommit]).toEqual([0, false]);
});
