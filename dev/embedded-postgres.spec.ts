import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { isAlive, runningPostgres, startPostgres } from './embedded-postgres.ts';
import { serverAccount } from './postgres-binaries.ts';
import { Database } from '../test/support/database.ts';

describe('the embedded PostgreSQL', () => {
  let parent: string;
  let folder: string;

  beforeAll(async () => {
    parent = mkdtempSync(join(tmpdir(), 'inventory-embedded-'));
    chmodSync(parent, 0o755); // PostgreSQL 15 must be able to enter each folder of its path
    folder = join(parent, 'postgres');
    // Two processes that create it at the same time: it starts for one of them.
    const outcomes = await Promise.allSettled([start(), start()]);
    expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    for (const outcome of outcomes) if (outcome.status === 'fulfilled') await outcome.value.stop();
    expect(readdirSync(parent)).toEqual(['postgres']);
  });
  afterAll(() => {
    rmSync(parent, { recursive: true, force: true });
  });

  const start = (data = folder) => startPostgres(data, { fsync: false });
  const query = (url: string, sql: string) => new Database(url).sql(sql);

  it('keeps its data over a restart', async () => {
    const one = await start();
    await query(one.url, 'CREATE TABLE kept AS SELECT 9007199254740993 AS id');
    await one.stop();
    expect(runningPostgres(folder)).toBeUndefined();

    const two = await start();
    expect(runningPostgres(folder)).toBe(two.url);
    expect(await query(two.url, 'SELECT id FROM kept')).toEqual([{ id: '9007199254740993' }]);
    await two.stop();
  });

  it('listens on 127.0.0.1 only, requires its password, and orders text by code point on every machine', async () => {
    const server = await start();
    expect(await query(server.url, 'SHOW listen_addresses')).toEqual([{ listen_addresses: '127.0.0.1' }]);
    const wrong = new URL(server.url);
    wrong.password = 'wrong';
    await expect(query(wrong.href, 'SELECT 1')).rejects.toThrow('password authentication failed');
    const sorted = `SELECT string_agg(t, '' ORDER BY t) AS sorted FROM unnest('{é,b,B,a}'::text[]) t`;
    expect(await query(server.url, sorted)).toEqual([{ sorted: 'Babé' }]);
    await server.stop();
  });

  it.each([false, true])(
    'ends when its owner is killed, and removes its folder if throwaway is %s',
    async (throwaway) => {
      const owned = join(parent, 'owned');
      execFileSync('cp', ['-a', folder, owned]);
      const script = `
      import { startPostgres } from './dev/embedded-postgres.ts';
      const { pid } = await startPostgres(${JSON.stringify(owned)}, { fsync: false, throwaway: ${throwaway} });
      console.log(pid);
      setInterval(() => {}, 1000);`;
      const owner = spawn(process.execPath, ['--input-type=module', '-e', script]);
      const [pid] = (await once(owner.stdout, 'data')) as [Buffer];
      owner.kill('SIGKILL');
      await expect.poll(() => isAlive(Number(pid))).toBe(false);
      await expect.poll(() => existsSync(owned)).toBe(!throwaway);
      rmSync(owned, { recursive: true, force: true });
    },
  );

  it('says in one line that the programs of its package are for another system', async () => {
    const binaries = join(parent, 'foreign');
    mkdirSync(join(binaries, 'bin'), { recursive: true });
    for (const name of ['initdb', 'postgres'])
      writeFileSync(join(binaries, 'bin', name), '#!/lib/ld-of-another-c-library\n');
    execFileSync('chmod', ['-R', 'a+rx', binaries]); // for the server's account, whatever the umask is
    const line =
      /^PostgreSQL cannot be run here: spawn.* ENOENT\. It needs Linux with glibc, .+\. Else set DATABASE_URL$/;
    for (const data of [join(parent, 'never'), folder])
      await expect(startPostgres(data, { binaries })).rejects.toThrow(line);
    expect(existsSync(join(parent, 'never'))).toBe(false);
  });

  const data = (name: string) => join(folder, 'data', name);

  it('says in one line that its data is lost', async () => {
    const lost = join(parent, 'lost');
    mkdirSync(lost);
    if (serverAccount) chownSync(lost, serverAccount.uid, serverAccount.gid);
    const line = `${lost} has lost its folder "data"; put it back, or remove ${lost} to start afresh`;
    await expect(start(lost)).rejects.toThrow(new Error(line));
  });

  it('shows what PostgreSQL says when it does not start', async () => {
    const former = readFileSync(data('PG_VERSION'));
    writeFileSync(data('PG_VERSION'), '14\n');
    onTestFinished(() => writeFileSync(data('PG_VERSION'), former));
    const message = 'The data directory was initialized by PostgreSQL version 14';
    await expect(start()).rejects.toThrow(new RegExp(`^PostgreSQL did not start in ${folder}:\n[^]*${message}`));
  });

  it('knows a lock file that a killed server left, whose number another program has now', async () => {
    const other = spawn('sleep', ['60'], { ...serverAccount, stdio: 'ignore' });
    onTestFinished(() => void other.kill());
    await once(other, 'spawn');
    const note = [other.pid, data(''), 0, 1, '', '', '', 'ready'].join('\n');
    writeFileSync(data('postmaster.pid'), `${note}\n`);
    if (serverAccount) chownSync(data('postmaster.pid'), serverAccount.uid, serverAccount.gid);
    expect(runningPostgres(folder)).toBeUndefined();
    const hint = `Is another postmaster (PID ${other.pid}) running in data directory "${join(folder, 'data')}"?`;
    await expect(start()).rejects.toThrow(hint);
    rmSync(data('postmaster.pid'));
  });

  it.runIf(serverAccount)('names the user who made the folder', async () => {
    chownSync(folder, 1000, 1000);
    onTestFinished(() => chownSync(folder, serverAccount?.uid ?? 0, serverAccount?.gid ?? 0));
    const advice = `start as that user, give it to user ${serverAccount?.uid} by chown -R, or remove it to start afresh`;
    await expect(start()).rejects.toThrow(new Error(`${folder} belongs to user 1000; ${advice}`));
  });
});
