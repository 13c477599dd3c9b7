import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { isAlive, runningPostgres, startPostgres } from '../dev/embedded-postgres.ts';

describe('the embedded PostgreSQL', () => {
  let parent: string;
  let folder: string;

  beforeAll(() => {
    parent = mkdtempSync(join(tmpdir(), 'inventory-embedded-'));
    chmodSync(parent, 0o755); // unlike later ones, PostgreSQL 15 wants its account to be able to walk its own path
    folder = join(parent, 'postgres');
  });
  afterAll(() => {
    rmSync(parent, { recursive: true, force: true });
  });

  async function query(url: string, sql: string): Promise<object[]> {
    const client = new Client({ connectionString: url });
    await client.connect();
    try {
      return (await client.query<object>(sql)).rows;
    } finally {
      await client.end();
    }
  }

  /** Another process that owns the server. */
  async function startElsewhere(
    options: object = { fsync: false },
  ): Promise<{ owner: ChildProcess; pid: number; folder: string }> {
    const own = 'throwaway' in options ? join(parent, 'throwaway') : folder;
    const script = `
      import { startPostgres } from './dev/embedded-postgres.ts';
      const { pid } = await startPostgres(${JSON.stringify(own)}, ${JSON.stringify(options)});
      console.log(pid);
      setInterval(() => {}, 1000);`;
    const owner = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = (await once(owner.stdout, 'data')) as [Buffer];
    return { owner, pid: Number(line.toString()), folder: own };
  }

  it('keeps its data from one start to the next', async () => {
    const one = await startPostgres(folder, { fsync: false });
    await query(one.url, 'CREATE TABLE kept AS SELECT 9007199254740993 AS id');
    await one.stop();
    expect(runningPostgres(folder)).toBeUndefined();

    const two = await startPostgres(folder, { fsync: false });
    expect(runningPostgres(folder)).toBe(two.url);
    expect(await query(two.url, 'SELECT id FROM kept')).toEqual([{ id: '9007199254740993' }]);
    await two.stop();
  });

  it('is reached from this machine alone, and with its password alone', async () => {
    const server = await startPostgres(folder, { fsync: false });
    expect(await query(server.url, 'SHOW listen_addresses')).toEqual([{ listen_addresses: '127.0.0.1' }]);
    const wrong = new URL(server.url);
    wrong.password = 'wrong';
    await expect(query(wrong.href, 'SELECT 1')).rejects.toThrow('password authentication failed');
    await server.stop();
  });

  it('orders text by code point on every machine', async () => {
    const server = await startPostgres(folder, { fsync: false });
    expect(
      await query(server.url, `SELECT string_agg(t, '' ORDER BY t) AS t FROM unnest('{é,b,B,a}'::text[]) t`),
    ).toEqual([{ t: 'Babé' }]);
    await server.stop();
  });

  it('is refused to a second process while the first one lives, and the first one is not harmed', async () => {
    const server = await startPostgres(folder, { fsync: false });
    await expect(startPostgres(folder, { fsync: false })).rejects.toThrow(
      `another process is already using the database in ${folder} (PostgreSQL is process ${server.pid})`,
    );
    expect(await query(server.url, 'SELECT 1 AS one')).toEqual([{ one: 1 }]);
    await server.stop();
  });

  it('goes to one of two processes that make it at the same time', async () => {
    const fresh = join(parent, 'fresh');
    const outcomes = await Promise.allSettled([
      startPostgres(fresh, { fsync: false }),
      startPostgres(fresh, { fsync: false }),
    ]);
    expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    for (const outcome of outcomes) if (outcome.status === 'fulfilled') await outcome.value.stop();
    expect(readdirSync(parent).filter((name) => name.startsWith('fresh.'))).toEqual([]);
  });

  it('does not outlive a killed owner', async () => {
    const { owner, pid } = await startElsewhere();
    owner.kill('SIGKILL');
    await vi.waitFor(() => {
      expect(isAlive(pid)).toBe(false);
    }, 5_000);
  });

  it('takes its throwaway folder along when its owner is killed', async () => {
    const { owner, folder: throwaway } = await startElsewhere({ fsync: false, throwaway: true });
    owner.kill('SIGKILL');
    await vi.waitFor(() => {
      expect(existsSync(throwaway)).toBe(false);
    }, 8_000);
  });

  it('recovers after a kill of all its processes', async () => {
    const server = await startPostgres(folder);
    await query(server.url, 'CREATE TABLE acknowledged ()');
    for (const pid of [server.pid, ...childrenOf(server.pid)]) process.kill(pid, 'SIGKILL');
    await server.ended;

    const again = await startPostgres(folder);
    expect(await query(again.url, 'SELECT * FROM acknowledged')).toEqual([]);
    await again.stop();
  });

  it.each([
    ['', 'is empty'],
    ['rubbish\n', 'rubbish'],
  ])('says in one line that a process file is damaged: %j', async (text, told) => {
    const note = join(folder, 'data', 'postmaster.pid');
    writeFileSync(note, text);
    const startedAt = performance.now();
    const failure = await startPostgres(folder, { fsync: false }).then(
      () => 'it started',
      (error: unknown) => (error as Error).message,
    );
    expect(failure).toMatch(/^PostgreSQL did not start in .+lock file "postmaster.pid".+$/);
    expect(failure).toContain(told);
    expect(performance.now() - startedAt).toBeLessThan(5_000);
    rmSync(note);
    await (await startPostgres(folder, { fsync: false })).stop();
  });

  function childrenOf(pid: number): number[] {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').map(Number);
  }
});
