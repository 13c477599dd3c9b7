import { spawnSync } from 'node:child_process';
import { hash } from 'node:crypto';
import { PrismaPg } from '@prisma/adapter-pg';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { bootstrapKey, revokeKey } from '../../src/auth/api-key.store.ts';
import { PrismaClient } from '../../src/generated/prisma/client.ts';
import { inventoryCommand } from './inventory-command.ts';
import { openStore, type Store } from './store.ts';

let store: Store;
beforeAll(async () => {
  store = await openStore();
});
afterAll(() => store.close());

/** The keys of a name, oldest first, as the database has them. */
function stored(name: string) {
  return store.sql<{ id: string; state: string; scopes: string[]; ends_in_s: number | null }>(
    `SELECT id, scopes, extract(epoch FROM expires_at - now())::float AS ends_in_s,
            CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= now() THEN 'expired' ELSE 'live' END AS state
       FROM api_key WHERE name = $1 ORDER BY created_at`,
    [name],
  );
}

/** @returns the id of the new key */
async function create(...args: string[]): Promise<string> {
  const { stderr } = await store.inventory('keys', 'create', ...args);
  return /^key (\S+)/.exec(stderr)?.[1] ?? '';
}

describe('inventory keys create', () => {
  it('prints the key alone, once, and stores only its SHA-256', async () => {
    const { code, stdout, stderr } = await store.inventory('keys', 'create', '--name', 'till');
    const key = stdout.trim();
    expect({ code, stdout }).toEqual({ code: 0, stdout: `${key}\n` });
    expect(key).toMatch(/^psk_[0-9A-Za-z]{48}$/);

    const [row] = await store.sql(`SELECT key_sha256, api_key::text AS row FROM api_key WHERE name = 'till'`);
    expect(row?.['key_sha256']).toEqual(hash('sha256', key, 'buffer'));
    const list = await store.inventory('keys', 'list');
    for (const text of [stderr, row?.['row'], list.stdout]) expect(text).not.toContain(key.slice(4, 20));
  });

  it('gives the two inventory scopes unless told otherwise, and an end when asked', async () => {
    await create('--name', 'plain');
    await create('--name', 'special', '--scope', 'metrics:read', '--scope', 'inventory:read', '--expires', '30d');
    expect(await stored('plain')).toMatchObject([{ scopes: ['inventory:read', 'inventory:write'], ends_in_s: null }]);
    expect(await stored('special')).toMatchObject([
      { scopes: ['metrics:read', 'inventory:read'], ends_in_s: expect.closeTo(30 * 86_400, -3) as number },
    ]);
  });

  it.each([
    ['--scope=metrics:read', "required option '--name <name>' not specified"],
    ['--name=', 'It must have 1 to 100 printable characters.'],
    ['--name=x --scope=inventory:all', 'Allowed choices are inventory:read, inventory:write, metrics:read.'],
    ['--name=x --expires=soon', 'It must be a duration such as'],
    ['--name=x --expires=2001-01-01', 'It must lie in the future.'],
    ['--name=x --expire=1d', 'Did you mean --expires?'],
  ])('refuses "%s" with exit code 2, and says: %s', async (options, told) => {
    const { code, stdout, stderr } = await store.inventory('keys', 'create', ...options.split(' '));
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).toContain(told);
    expect(await stored('x')).toEqual([]);
  });
});

describe('a key that nobody could read', () => {
  /** Runs a line of a shell in which `inventory` is the command. */
  function shell(line: string) {
    const { command, args } = inventoryCommand();
    const script = `set -o pipefail; inventory() { '${command}' '${args.join()}' "$@"; }; ${line}`;
    const { status, stderr } = spawnSync('bash', ['--norc', '-c', script], {
      env: { DATABASE_URL: store.url },
      encoding: 'utf8',
    });
    return { status, stderr };
  }

  it.each(['> /dev/full', '| true'])('is told to be revoked: %s', async (outlet) => {
    const { status, stderr } = shell(`inventory keys create --name unread ${outlet}`);
    const id = (await stored('unread')).at(-1)?.id;
    expect(status).toBe(1);
    expect(stderr).toContain(`error: key ${id} was not delivered, and cannot be shown again: revoke it\n`);
  });

  it('is not made where standard output is closed; commands whose exit code is the answer do without it', async () => {
    const id = await create('--name', 'closed');
    const refused = { status: 1, stderr: 'error: standard output is closed; nothing was done\n' };
    // `<>` opens the null device as Node.js and Python do for a child whose output is to be ignored.
    for (const outlet of ['>&-', '1<> /dev/null']) {
      expect(shell(`inventory keys create --name closed ${outlet}`)).toEqual(refused);
      expect(shell(`inventory keys rotate ${id} ${outlet}`)).toEqual(refused);
      expect(shell(`inventory keys list ${outlet}`)).toEqual({ status: 0, stderr: '' });
    }
    expect(await stored('closed')).toMatchObject([{ id, state: 'live', ends_in_s: null }]);
  });
});

describe('inventory keys list', () => {
  it('lets no name steer a terminal, nor do rotate and revoke', async () => {
    await store.sql(`INSERT INTO api_key (id, name, key_sha256, scopes)
                     VALUES ('odd', E'till\\n0ld  \\x1b[2J\\u202eevil', sha256('y'), '{metrics:read}')`);
    for (const args of [['list'], ['rotate', 'odd'], ['revoke', 'odd']]) {
      const { stdout, stderr } = await store.inventory('keys', ...args);
      expect(stdout + stderr).toContain('till\ufffd0ld  \ufffd[2J\ufffdevil');
    }
  });

  it('shows all that may be known of the keys, for people and for programs', async () => {
    await store.sql(`INSERT INTO api_key (id, name, key_sha256, scopes, created_at, expires_at)
                     VALUES ('0ld', 'old one', sha256('x'), '{metrics:read}', '2020-01-01Z', '2021-01-01Z')`);
    const table = await store.inventory('keys', 'list');
    expect(table.stdout.split('\n').slice(0, 2)).toEqual([
      expect.stringMatching(/^id +name +state +scopes +created +expires +last used$/),
      expect.stringMatching(/^0ld +old one +expired +metrics:read +2020-01-01T00:00:00Z +2021-01-01T00:00:00Z +-$/),
    ]);
    const json = await store.inventory('keys', 'list', '--json');
    expect((JSON.parse(json.stdout) as unknown[])[0]).toEqual({
      id: '0ld',
      name: 'old one',
      scopes: ['metrics:read'],
      createdAt: '2020-01-01T00:00:00.000Z',
      expiresAt: '2021-01-01T00:00:00.000Z',
      revokedAt: null,
      lastUsedAt: null,
      state: 'expired',
    });
  });
});

describe('inventory keys revoke', () => {
  it('revokes for good, and keeps the first time when repeated', async () => {
    const id = await create('--name', 'lost');
    const first = await store.inventory('keys', 'revoke', id);
    const second = await store.inventory('keys', 'revoke', id);
    expect(first).toMatchObject({ code: 0, stdout: '' });
    expect(second).toEqual(first);
    expect(await stored('lost')).toMatchObject([{ state: 'revoked' }]);
  });

  it('says when there is no such key', async () => {
    const stderr = 'error: no key has this id; "inventory keys list" shows them all\n';
    expect(await store.inventory('keys', 'revoke', 'nosuchid')).toEqual({ code: 1, stdout: '', stderr });
  });
});

describe('inventory keys rotate', () => {
  it('issues a successor of the same name and scopes while the old key runs out within a day', async () => {
    const id = await create('--name', 'scraper', '--scope', 'metrics:read');
    const { stdout } = await store.inventory('keys', 'rotate', id);
    expect(stdout.trim()).toMatch(/^psk_[0-9A-Za-z]{48}$/);
    const [old, successor] = await stored('scraper');
    expect(old).toMatchObject({ id, state: 'live', ends_in_s: expect.closeTo(86_400, -2) as number });
    expect(successor).toMatchObject({ state: 'live', scopes: ['metrics:read'], ends_in_s: null });
  });

  it('ends the old key at once without an overlap, and rotates only what is live', async () => {
    const id = await create('--name', 'leaked');
    expect((await store.inventory('keys', 'rotate', id, '--overlap', '0s')).code).toBe(0);
    expect((await stored('leaked')).map(({ state }) => state)).toEqual(['expired', 'live']);
    const stderr = `error: key ${id} is expired; only a live key can be rotated\n`;
    expect(await store.inventory('keys', 'rotate', id)).toEqual({ code: 1, stdout: '', stderr });
  });
});

describe('the bootstrap key', () => {
  it('is made once by many processes, has all scopes, and stays revoked', async () => {
    const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: store.url }) });
    onTestFinished(() => prisma.$disconnect());
    const token = 'a-token-of-the-deployment-itself-0123456789';
    const made = await Promise.all(Array.from({ length: 8 }, () => bootstrapKey(prisma, token)));
    expect(new Set(made.map(({ id }) => id)).size).toBe(1);
    const id = made[0]?.id ?? '';
    const scopes = ['inventory:read', 'inventory:write', 'metrics:read'];
    expect(await stored('bootstrap')).toMatchObject([{ id, state: 'live', scopes }]);
    await store.sql(`UPDATE api_key SET scopes = '{inventory:read}' WHERE id = $1`, [id]); // as an older release knew them
    expect(await bootstrapKey(prisma, token)).toEqual({ id, state: 'live' });
    expect(await stored('bootstrap')).toMatchObject([{ id, scopes }]);

    await revokeKey(prisma, id);
    expect(await bootstrapKey(prisma, token)).toEqual({ id, state: 'revoked' });
    expect(await stored('bootstrap')).toMatchObject([{ id, state: 'revoked' }]);
  });
});
