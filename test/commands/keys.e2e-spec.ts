import { spawnSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { PrismaPg } from '@prisma/adapter-pg';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { makeKeyId } from '../../src/keys/api-key-format.ts';
import { bootstrapKey, revokeKey, rotateKey } from '../../src/keys/api-key-store.ts';
import { PrismaClient } from '../../src/generated/prisma/client.ts';
import { Failure } from '../../src/lib/postgres/index.ts';
import { createDatabase } from '../support/database.ts';
import {
  failed,
  inventory,
  outcomeOf,
  sessionsOf,
  SHELL_COMMAND,
  startInventory,
  untilSessionOf,
} from './inventory-command.ts';
import { openStore, type Store } from './store.ts';

let store: Store;
beforeAll(async () => {
  store = await openStore();
});

/** The stored keys of this name, oldest first. */
function stored(name: string) {
  return store.sql<{ id: string; state: string; scopes: string[]; ends_in_s: number | null }>(
    `SELECT id, scopes, extract(epoch FROM expires_at - now())::float AS ends_in_s,
            CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= now() THEN 'expired' ELSE 'live' END AS state
       FROM api_key WHERE name = $1 ORDER BY created_at`,
    [name],
  );
}

const any = (pattern: RegExp) => expect.stringMatching(pattern) as string;
const keys = (...args: string[]) => store.inventory('keys', ...args);

/** @returns the id of the new key */
async function create(...args: string[]): Promise<string> {
  const { stderr } = await keys('create', ...args);
  return /^key (\S+)/.exec(stderr)?.[1] ?? '';
}

describe('inventory keys create', () => {
  it('prints the key once, and stores only its SHA-256', async () => {
    const { code, stdout, stderr } = await keys('create', '--name', 'till');
    const key = stdout.trim();
    expect({ code, stdout }).toEqual({ code: 0, stdout: `${key}\n` });
    expect(key).toMatch(/^psk_[0-9A-Za-z]{48}$/);
    expect(stderr.replace(/(?<=^key )\S+/, 'ID')).toBe(
      'key ID for till: inventory:read, inventory:write; it never expires\nthis is the only time it is shown\n',
    );

    const [row] = await store.sql(`SELECT key_sha256, api_key::text AS row FROM api_key WHERE name = 'till'`);
    expect(row?.['key_sha256']).toEqual(hash('sha256', key, 'buffer'));
    const list = await keys('list');
    for (const text of [stderr, row?.['row'], list.stdout]) expect(text).not.toContain(key.slice(4, 20));
  });

  it('grants both inventory scopes without an expiry by default; --scope and --expires change that', async () => {
    await create('--name', 'plain');
    const scopes = ['metrics:read', 'inventory:read', 'metrics:read'].map((scope) => `--scope=${scope}`);
    const special = ['--name', 'special', ...scopes, '--expires', '30d'];
    const [, end = ''] =
      /: metrics:read, inventory:read; it expires (\S+)\n/.exec((await keys('create', ...special)).stderr) ?? [];
    expect((Date.parse(end) - Date.now()) / 86_400_000).toBeCloseTo(30, 2);
    expect(await stored('plain')).toMatchObject([{ scopes: ['inventory:read', 'inventory:write'], ends_in_s: null }]);
    expect(await stored('special')).toMatchObject([
      { scopes: ['metrics:read', 'inventory:read'], ends_in_s: expect.closeTo(30 * 86_400, -3) as number },
    ]);
  });
});

describe('inventory keys', () => {
  /** Runs a line of a shell in which `inventory` is the command. */
  function shell(line: string) {
    const script = `set -o pipefail; inventory() { ${SHELL_COMMAND} "$@"; }; ${line}`;
    const options = { env: { DATABASE_URL: store.url }, encoding: 'utf8' } as const;
    const { status, stderr } = spawnSync('bash', ['--norc', '-c', script], options);
    return { status, stderr };
  }

  it('create tells you to revoke a key that it could not print', async () => {
    const { status, stderr } = shell('inventory keys create --name unread > /dev/full');
    const id = (await stored('unread')).at(-1)?.id;
    expect(status).toBe(1);
    expect(stderr).toContain(`error: key ${id} was not delivered, and cannot be shown again: revoke it\n`);
  });

  it('list says that its output cannot be written', () => {
    const stderr = any(/^error: standard output cannot be written: .*ENOSPC.+\n$/);
    expect(shell('inventory keys list > /dev/full')).toEqual({ status: 1, stderr });
  });

  it('create and rotate refuse an output that goes nowhere', async () => {
    const id = await create('--name', 'nowhere');
    const refused = { status: 1, stderr: 'error: standard output goes nowhere: the key would be lost\n' };
    for (const command of ['create --name nowhere >&-', `rotate ${id} > /dev/null`])
      expect(shell(`inventory keys ${command}`)).toEqual(refused);
    expect(await stored('nowhere')).toMatchObject([{ id, state: 'live', ends_in_s: null }]);
  });

  it('list, rotate and revoke print no control characters of a name', async () => {
    await store.sql(`INSERT INTO api_key (id, name, key_sha256, scopes)
                     VALUES ('odd', E'till\\n0ld  \\x1b[2J\\u202eevil', sha256('y'), '{metrics:read}')`);
    for (const args of [['list'], ['rotate', 'odd'], ['revoke', 'odd']]) {
      const { stdout, stderr } = await keys(...args);
      expect(stdout + stderr).toContain('till\ufffd0ld  \ufffd[2J\ufffdevil');
    }
  });
});

describe('inventory keys list', () => {
  it('prints all that is known of each key except the key, as a table or as JSON', async () => {
    await store.sql(`INSERT INTO api_key (id, name, key_sha256, scopes, created_at, expires_at, revoked_at, last_used_at)
       VALUES ('zld', 'old one', sha256('x'), '{metrics:read}', '2020-01-01Z', '2021-01-01Z', '2022-01-01Z', NULL),
              ('yld', 'as old', sha256('z'), '{}', '2020-01-01Z', NULL, NULL, '2023-01-01Z')`);
    const table = await keys('list');
    expect(table.stdout.split('\n').slice(0, 3)).toEqual([
      expect.stringMatching(/^id +name +state +scopes +created +expires +last used$/),
      expect.stringMatching(/^yld +as old +live +2020-01-01T00:00:00Z +- +2023-01-01T00:00:00Z$/),
      expect.stringMatching(/^zld +old one +revoked +metrics:read +2020-01-01T00:00:00Z +2021-01-01T00:00:00Z +-$/),
    ]);
    const json = await keys('list', '--json');
    expect((JSON.parse(json.stdout) as unknown[])[1]).toEqual({
      id: 'zld',
      name: 'old one',
      scopes: ['metrics:read'],
      createdAt: '2020-01-01T00:00:00.000Z',
      expiresAt: '2021-01-01T00:00:00.000Z',
      revokedAt: '2022-01-01T00:00:00.000Z',
      lastUsedAt: null,
      state: 'revoked',
    });
  });
});

describe('inventory keys revoke', () => {
  it('revokes a key for ever, prints the same when repeated, and refuses an id that no key has', async () => {
    const id = await create('--name', 'lost');
    const { code, stderr } = await keys('revoke', id);
    expect([code, await stored('lost')]).toMatchObject([0, [{ state: 'revoked' }]]);
    const message = `key ${id} (lost) is revoked since `;
    expect(stderr).toContain(message);
    await store.sql(`UPDATE api_key SET revoked_at = '2022-01-01Z' WHERE id = $1`, [id]);
    expect(await keys('revoke', id)).toEqual({ code: 0, stdout: '', stderr: `${message}2022-01-01T00:00:00Z\n` });
    expect(await keys('rotate', id)).toEqual(failed(`key ${id} is revoked; only a live key can be rotated`));
    expect(await stored('lost')).toHaveLength(1);
    const another = await create('--name', 'kept');
    for (const none of ['nosuchid', another.slice(0, -1), ''])
      expect(await keys('revoke', none)).toEqual(failed('no key has this id; "inventory keys list" shows them all'));
    expect(await stored('kept')).toMatchObject([{ state: 'live' }]);
  });
});

describe('inventory keys rotate', () => {
  it('creates a key with the same name and scopes, and lets the old key expire after a day', async () => {
    const id = await create('--name', 'scraper', '--scope', 'metrics:read');
    const { stdout, stderr } = await keys('rotate', id);
    expect(
      (Date.parse(new RegExp(`\\nkey ${id} is good until (.*)\n$`).exec(stderr)?.[1] ?? '') - Date.now()) / 1_000,
    ).toBeCloseTo(86_400, -3);
    expect(stdout.trim()).toMatch(/^psk_[0-9A-Za-z]{48}$/);
    expect(
      await store.sql('SELECT name FROM api_key WHERE key_sha256 = sha256($1)', [Buffer.from(stdout.trim())]),
    ).toEqual([{ name: 'scraper' }]);
    const [, successorId = ''] = /^key (\S+)/.exec(stderr) ?? [];
    const again = ['rotate', id, '--overlap', '48h', '--expires', '30d'];
    expect(await keys(...again)).toEqual(
      failed(`key ${id} has the successor ${successorId}; rotate that one, or revoke it first`),
    );
    await keys('revoke', successorId);
    expect((await keys(...again)).code).toBe(0); // the old key keeps its earlier end
    const [old, successor, another] = await stored('scraper');
    expect(another).toMatchObject({ state: 'live', ends_in_s: expect.closeTo(30 * 86_400, -3) as number });
    expect(old).toMatchObject({ id, state: 'live', ends_in_s: expect.closeTo(86_400, -2) as number });
    expect(successor).toMatchObject({ state: 'revoked', scopes: ['metrics:read'], ends_in_s: null });
  });

  it('ends the old key at once with --overlap 0s, and refuses a key that is not live', async () => {
    const id = await create('--name', 'leaked');
    expect((await keys('rotate', id, '--overlap', '0s')).code).toBe(0);
    expect((await stored('leaked')).map(({ state }) => state)).toEqual(['expired', 'live']);
    expect(await keys('rotate', id)).toEqual(failed(`key ${id} is expired; only a live key can be rotated`));
  });
});

describe('inventory keys create and rotate', () => {
  const HOUR_MS = 3_600_000;

  const withClockAhead = (clockAheadMs: number, ...args: string[]) =>
    inventory(store.url, ['keys', ...args], '', {}, { clockAheadMs });

  it('tell times by the clock of the database, not by their own, which is a day ahead', async () => {
    const name = 'clock';
    const run = (...args: string[]) => withClockAhead(24 * HOUR_MS, ...args);
    const { stderr } = await run('create', '--name', name, '--expires', '1h');
    const [, id = ''] = /^key (\S+)/.exec(stderr) ?? [];
    expect((await run('rotate', id, '--expires', new Date(Date.now() + 2 * HOUR_MS).toISOString())).code).toBe(0);
    expect(await stored(name)).toMatchObject([
      { id, state: 'live', ends_in_s: expect.closeTo(3_600, -3) as number },
      { state: 'live', ends_in_s: expect.closeTo(7_200, -3) as number },
    ]);
    const age = 'extract(epoch FROM clock_timestamp() - created_at)::float8 AS age_s';
    const young = { age_s: expect.closeTo(0, -3) as number };
    expect(await store.sql(`SELECT ${age} FROM api_key WHERE name = $1`, [name])).toEqual([young, young]);
  });

  it('refuse an end that has come by the clock of the database', async () => {
    const id = await create('--name', 'ended');
    const anHourAgo = new Date(Date.now() - HOUR_MS).toISOString();
    for (const args of [
      ['create', '--name', 'ended', '--expires', anHourAgo],
      ['rotate', id, '--expires', anHourAgo],
    ])
      expect(await withClockAhead(-24 * HOUR_MS, ...args)).toEqual({
        code: 1,
        stdout: '',
        stderr: any(/^error: 20\S+Z lies in the past by the database's clock, which says 20\S+Z\n$/),
      });
    expect(await stored('ended')).toMatchObject([{ id, state: 'live', ends_in_s: null }]);
  });
});

describe('inventory keys rotate, twice at once', () => {
  it('issues one successor, and refuses the other by its id', async () => {
    const id = await create('--name', 'busy');
    const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: store.url }) });
    onTestFinished(() => prisma.$disconnect());
    const lock = await store.database.session(`SELECT FROM api_key WHERE id = '${id}' FOR UPDATE`);
    // The command gives up its wait for a lock after 5 s, which may be less than the start of a second command takes.
    const rotate = () => rotateKey(prisma, { oldId: id, id: makeKeyId(), overlapMs: 60_000, expiresAt: null });
    const rotations = Promise.allSettled([rotate(), rotate()]);
    await expect.poll(() => store.database.waitingForLocks()).toBe(2);
    await lock.query('COMMIT');
    const outcomes = (await rotations).toSorted((one, other) => one.status.localeCompare(other.status));
    expect(await stored('busy')).toMatchObject([{ id, state: 'live' }, { state: 'live' }]);
    const successor = (await stored('busy'))[1]?.id ?? '';
    const refusal = new Failure(`key ${id} has the successor ${successor}; rotate that one, or revoke it first`);
    expect(outcomes).toMatchObject([
      { status: 'fulfilled', value: { key: any(/^psk_/), record: { id: successor } } },
      { status: 'rejected', reason: refusal },
    ]);
    expect((await keys('rotate', successor)).code).toBe(0);
  });
});

describe('inventory keys create, rotate and revoke, when cut off', () => {
  const UNSURE = 'interrupted during the commit: key (\\w{8}) may have been made, but was not shown; ';
  const REVOKE = 'if "inventory keys list" shows it, revoke it';
  const TERMINATE = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'inventory keys'
                        AND datname = current_database()`;

  /**
   * Cuts the command off while it waits for a lock. The database commits what it waits for, unless the session was
   * ended.
   */
  async function cutOff(args: readonly string[], cut: NodeJS.Signals | 'session') {
    const lock = await store.database.session('LOCK TABLE api_key');
    const command = cut === 'session' ? undefined : startInventory(store.url, ['keys', ...args]);
    const outcome = command ? outcomeOf(command) : keys(...args);
    await untilSessionOf('keys', store.database, `wait_event_type = 'Lock'`);
    if (cut === 'session') await store.sql(TERMINATE);
    else command?.kill(cut);
    await outcome;
    await lock.query('COMMIT');
    await expect.poll(() => sessionsOf('keys', store)).toEqual([]);
    return outcome;
  }

  it('by the end of the session, says what may have happened', async () => {
    const { code, stdout, stderr } = await cutOff(['create', '--name', 'lost session'], 'session');
    expect([code, stdout, stderr]).toEqual([1, '', any(new RegExp(`^error: .+\\n${UNSURE}${REVOKE}\n$`))]);
    expect(await stored('lost session')).toEqual([]);
  });

  it('by a signal, say what may have happened and what to do', async () => {
    const created = await cutOff(['create', '--name', 'cut'], 'SIGTERM');
    expect(created).toEqual({ code: 143, stdout: '', stderr: any(new RegExp(`^${UNSURE}${REVOKE}\n$`)) });
    const [, id = ''] = new RegExp(UNSURE).exec(created.stderr) ?? [];
    expect(await stored('cut')).toMatchObject([{ id, state: 'live' }]);

    const rotated = await cutOff(['rotate', id], 'SIGHUP');
    const stderr = any(new RegExp(`^${UNSURE}${REVOKE}, and rotate key ${id} again before it expires\n$`));
    expect(rotated).toEqual({ code: 129, stdout: '', stderr });
    const [, successor = ''] = new RegExp(UNSURE).exec(rotated.stderr) ?? [];
    expect(await stored('cut')).toMatchObject([{ id }, { id: successor, state: 'live' }]);
    await keys('revoke', successor);
    expect((await keys('rotate', id)).code).toBe(0); // as advised

    const again = `interrupted during the commit: key ${id} may still be good; revoke it again\n`;
    expect(await cutOff(['revoke', id], 'SIGQUIT')).toEqual({ code: 131, stdout: '', stderr: again });
  });

  it('say before the commit that nothing was done', async () => {
    const silent = createServer().listen(0, '127.0.0.1');
    onTestFinished(() => void silent.close());
    const connected = once(silent, 'connection') as Promise<[Socket]>;
    await once(silent, 'listening');
    const { port } = silent.address() as AddressInfo;
    const command = startInventory(`postgresql://a:b@127.0.0.1:${port}/c`, ['keys', 'create', '--name', 'early']);
    const [socket] = await connected;
    command.kill('SIGINT');
    expect(await outcomeOf(command)).toEqual({ code: 130, stdout: '', stderr: 'interrupted: nothing was done\n' });
    socket.destroy();
  });
});

describe('the bootstrap key', () => {
  it('is created once by many processes, as its SHA-256, always has all scopes, and stays revoked', async () => {
    const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: store.url }) });
    onTestFinished(() => prisma.$disconnect());
    const token = 'a-token-of-the-deployment-itself-0123456789';
    const made = await Promise.all(Array.from({ length: 8 }, () => bootstrapKey(prisma, token)));
    expect(new Set(made.map(({ id }) => id)).size).toBe(1);
    const id = made[0]?.id ?? '';
    const scopes = ['inventory:read', 'inventory:write', 'metrics:read'];
    expect(await stored('bootstrap')).toMatchObject([{ id, state: 'live', scopes }]);
    const [row] = await store.sql('SELECT key_sha256, api_key::text AS row FROM api_key WHERE id = $1', [id]);
    expect(row?.['key_sha256']).toEqual(hash('sha256', token, 'buffer'));
    expect(row?.['row']).not.toContain(token.slice(0, 20));
    await store.sql(`UPDATE api_key SET scopes = '{inventory:read}' WHERE id = $1`, [id]); // as if an older release had stored it
    expect(await bootstrapKey(prisma, token)).toEqual({ id, state: 'live' });
    expect(await stored('bootstrap')).toMatchObject([{ id, scopes }]);

    await revokeKey(prisma, id);
    expect(await bootstrapKey(prisma, token)).toEqual({ id, state: 'revoked' });
    await store.sql(`UPDATE api_key SET scopes = '{inventory:read}' WHERE id = $1`, [id]);
    expect(await bootstrapKey(prisma, token)).toEqual({ id, state: 'revoked' });
    expect(await stored('bootstrap')).toMatchObject([{ id, state: 'revoked', scopes: ['inventory:read'] }]);
  });

  it('keeps the further scopes with which a later release stores it at the same time', async () => {
    const own = await createDatabase();
    const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: own.url }) });
    onTestFinished(() => prisma.$disconnect());
    await own.sql('ALTER TABLE api_key DROP CONSTRAINT api_key_scopes_check');
    const scopes = ['later', 'inventory:read', 'inventory:write', 'metrics:read'];
    const later = await own.session(`INSERT INTO api_key (id, name, key_sha256, scopes)
      VALUES ('later', 'bootstrap', sha256('token'), '{${scopes.join()}}')`);
    const made = bootstrapKey(prisma, 'token');
    await expect.poll(() => own.waitingForLocks()).toBe(1);
    await later.query('COMMIT');
    expect(await made).toEqual({ id: 'later', state: 'live' });
    const written = await own.sql('SELECT xmin, scopes FROM api_key');
    expect(written).toMatchObject([{ scopes }]);
    expect(await bootstrapKey(prisma, 'token')).toEqual({ id: 'later', state: 'live' });
    expect(await own.sql('SELECT xmin, scopes FROM api_key')).toEqual(written);
  });
});
