import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { PrismaPg } from '@prisma/adapter-pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bootstrapKey, revokeKey } from '../../src/auth/api-key.store.ts';
import { PrismaClient } from '../../src/generated/prisma/client.ts';
import { inventoryCommand } from './inventory-command.ts';
import { openStore, type Store } from './store.ts';

let store: Store;
beforeAll(async () => {
  store = await openStore();
});
afterAll(() => store.close());

interface Stored {
  id: string;
  state: string;
  scopes: string[];
  ends_in_s: number | null;
}

/** The keys of a name, oldest first, as the database has them. */
function stored(name: string): Promise<Stored[]> {
  return store.sql<Stored>(
    `SELECT id, scopes, extract(epoch FROM expires_at - now())::float AS ends_in_s,
            CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN expires_at <= now() THEN 'expired' ELSE 'live' END AS state
       FROM api_key WHERE name = $1 ORDER BY created_at`,
    [name],
  );
}

/** @returns the key and its id */
async function create(...args: string[]): Promise<{ key: string; id: string }> {
  const { code, stdout, stderr } = await store.inventory('keys', 'create', ...args);
  expect({ code, stderr }).toMatchObject({ code: 0 });
  return { key: stdout.trim(), id: /^key (\S+)/.exec(stderr)?.[1] ?? '' };
}

describe('inventory keys create', () => {
  it('prints the key alone, once, and stores only its SHA-256', async () => {
    const { code, stdout, stderr } = await store.inventory('keys', 'create', '--name', 'till');
    const key = stdout.trim();
    expect(code).toBe(0);
    expect(stdout).toBe(`${key}\n`);
    expect(key).toMatch(/^psk_[0-9A-Za-z]{48}$/);
    expect(stderr).not.toContain(key.slice(4, 46));

    const rows = await store.sql<{ row: string; sha256: string }>(
      `SELECT api_key::text AS row, encode(key_sha256, 'hex') AS sha256 FROM api_key WHERE name = 'till'`,
    );
    expect(rows.map(({ sha256 }) => sha256)).toEqual([createHash('sha256').update(key).digest('hex')]);
    expect(rows[0]?.row).not.toContain(key.slice(4, 20));
    expect((await store.inventory('keys', 'list')).stdout).not.toContain(key.slice(4, 20));
  });

  it('gives the two inventory scopes unless told otherwise, and an end when asked', async () => {
    await Promise.all([
      create('--name', 'plain'),
      create('--name', 'special', '--scope', 'metrics:read', '--scope', 'inventory:read', '--expires', '30d'),
    ]);
    expect(await stored('plain')).toMatchObject([{ scopes: ['inventory:read', 'inventory:write'], ends_in_s: null }]);
    const [special] = await stored('special');
    expect(special?.scopes).toEqual(['metrics:read', 'inventory:read']);
    expect(special?.ends_in_s).toBeCloseTo(30 * 86_400, -3);
  });

  it('refuses what makes no sense with exit code 2', async () => {
    const cases: [string[], string][] = [
      [[], "required option '--name <name>' not specified"],
      [['--name', ''], 'It must have 1 to 100 printable characters.'],
      [
        ['--name', 'wrong', '--scope', 'inventory:all'],
        'Allowed choices are inventory:read, inventory:write, metrics:read.',
      ],
      [['--name', 'wrong', '--expires', 'soon'], 'It must be a duration such as'],
      [['--name', 'wrong', '--expires', '2001-01-01'], 'It must lie in the future.'],
      [['--name', 'wrong', '--expire', '1d'], 'Did you mean --expires?'],
    ];
    const outcomes = await Promise.all(cases.map(([args]) => store.inventory('keys', 'create', ...args)));
    for (const [at, { code, stdout, stderr }] of outcomes.entries()) {
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
      expect(stderr).toContain(cases[at]?.[1]);
    }
    expect(await stored('wrong')).toEqual([]);
  });
});

describe('a key that nobody could read', () => {
  it.each(['> /dev/full', '| true'])('is told to be revoked: %s', async (outlet) => {
    const { command, args } = inventoryCommand();
    const script = `set -o pipefail; "$@" ${outlet}`;
    const words = [command, ...args, 'keys', 'create', '--name', 'unread'];
    const { status, stderr } = spawnSync('bash', ['-c', script, 'bash', ...words], {
      env: { DATABASE_URL: store.url },
      encoding: 'utf8',
    });
    const id = (await stored('unread')).at(-1)?.id;
    expect(status).toBe(1);
    expect(stderr).toContain(`error: key ${id} was not delivered, and cannot be shown again: revoke it\n`);
  });
});

describe('inventory keys list', () => {
  it('shows all that may be known of the keys, for people and for programs', async () => {
    await store.sql(`INSERT INTO api_key (id, name, key_sha256, scopes, created_at, expires_at)
                     VALUES ('0ld', 'old one', sha256('x'), '{metrics:read}', '2020-01-01Z', '2021-01-01Z')`);
    const [table, json] = await Promise.all([
      store.inventory('keys', 'list'),
      store.inventory('keys', 'list', '--json'),
    ]);
    expect(table.stdout.split('\n').slice(0, 2)).toEqual([
      expect.stringMatching(/^id +name +state +scopes +created +expires +last used$/),
      expect.stringMatching(/^0ld +old one +expired +metrics:read +2020-01-01T00:00:00Z +2021-01-01T00:00:00Z +-$/),
    ]);
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

describe('the name of a key', () => {
  it('cannot steer a terminal', async () => {
    await store.sql(`INSERT INTO api_key (id, name, key_sha256, scopes)
                     VALUES ('odd', E'till\\n0ld  \\x1b[2J\\u202eevil', sha256('y'), '{metrics:read}')`);
    const shown = 'till\ufffd0ld  \ufffd[2J\ufffdevil';
    for (const args of [['list'], ['rotate', 'odd'], ['revoke', 'odd']]) {
      const { stdout, stderr } = await store.inventory('keys', ...args);
      expect(stdout + stderr).toContain(shown);
    }
  });
});

describe('inventory keys revoke', () => {
  it('revokes for good, and keeps the first time when repeated', async () => {
    const { id } = await create('--name', 'lost');
    const first = await store.inventory('keys', 'revoke', id);
    const second = await store.inventory('keys', 'revoke', id);
    expect(first).toMatchObject({ code: 0, stdout: '' });
    expect(second).toEqual(first);
    expect(await stored('lost')).toMatchObject([{ state: 'revoked' }]);
  });

  it('says when there is no such key', async () => {
    const { code, stderr } = await store.inventory('keys', 'revoke', 'nosuchid');
    expect(code).toBe(1);
    expect(stderr).toBe('error: no key has this id; "inventory keys list" shows them all\n');
  });
});

describe('inventory keys rotate', () => {
  it('issues a successor of the same name and scopes while the old key runs out', async () => {
    const old = await create('--name', 'scraper', '--scope', 'metrics:read');
    const { code, stdout } = await store.inventory('keys', 'rotate', old.id, '--overlap', '1h');
    expect(code).toBe(0);
    expect(stdout.trim()).toMatch(/^psk_[0-9A-Za-z]{48}$/);
    expect(stdout.trim()).not.toBe(old.key);
    const [first, second] = await stored('scraper');
    expect(first).toMatchObject({ id: old.id, state: 'live' });
    expect(first?.ends_in_s).toBeCloseTo(3_600, -2);
    expect(second).toMatchObject({ state: 'live', scopes: ['metrics:read'], ends_in_s: null });
  });

  it('ends the old key at once without an overlap, and rotates only what is live', async () => {
    const { id } = await create('--name', 'leaked');
    expect((await store.inventory('keys', 'rotate', id, '--overlap', '0s')).code).toBe(0);
    expect((await stored('leaked')).map(({ state }) => state)).toEqual(['expired', 'live']);
    const stderr = `error: key ${id} is expired; only a live key can be rotated\n`;
    expect(await store.inventory('keys', 'rotate', id)).toEqual({ code: 1, stdout: '', stderr });
  });
});

describe('the bootstrap key', () => {
  it('is made once by many processes, has all scopes, and stays revoked', async () => {
    const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: store.url }) });
    try {
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
    } finally {
      await prisma.$disconnect();
    }
  });
});
