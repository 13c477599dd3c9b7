import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { readSettings, SETTINGS } from './settings.js';
import { Failure } from './errors/failure.js';

const DATABASE_URL = 'postgresql://user:secret@db.example/inventory';

const bare = 'postgresql://user@db.example/inventory';

describe('readSettings', () => {
  it('needs nothing but a database', () => {
    expect(readSettings({ DATABASE_URL })).toMatchObject({ DATABASE_URL, PORT: 3000, LOG_LEVEL: 'info' });
  });

  it.each([
    [{}, 'DATABASE_URL is required'],
    [{ DATABASE_URL: 'mysql://secret@db/x' }, 'DATABASE_URL must be a postgresql:// address'],
    [{ DATABASE_URL: 'postgresql://u:secret@one:5432,two:5432/x' }, 'DATABASE_URL must name one host'],
    [
      { DATABASE_URL, DATABASE_PASSWORD_FILE: 'package.json' },
      'DATABASE_PASSWORD_FILE must not be set where DATABASE_URL has a password',
    ],
    [
      { DATABASE_URL: bare, DATABASE_PASSWORD_FILE: '/secret' },
      'DATABASE_PASSWORD_FILE names a file that cannot be read: no such file or directory',
    ],
    [{ DATABASE_URL: bare, DATABASE_PASSWORD_FILE: '/dev/null' }, 'DATABASE_PASSWORD_FILE names a file that is empty'],
    [{ DATABASE_URL, PORT: '70000' }, 'PORT must be an integer from 0 to 65535'],
    [{ DATABASE_URL, PORT: '3000.5' }, 'PORT must be an integer from 0 to 65535'],
    [
      { DATABASE_URL, CORS_ORIGINS: '*' },
      'CORS_ORIGINS must be origins like https://shop.example, separated by commas',
    ],
    [
      { DATABASE_URL, CORS_ORIGINS: 'https://shop.example/' },
      'CORS_ORIGINS must be origins like https://shop.example, separated by commas',
    ],
    [{ DATABASE_URL, PORT: '' }, 'PORT must be an integer from 0 to 65535'],
    [
      { DATABASE_URL, BOOTSTRAP_API_KEY: 'secret' },
      'BOOTSTRAP_API_KEY must be 32 to 256 characters of A-Z a-z 0-9 . _ ~ + / - (RFC 6750)',
    ],
    [{ DATABASE_URL, REQUEST_DEADLINE_MS: '10000' }, 'REQUEST_DEADLINE_MS must be an integer from 100 to 9000'],
  ])('refuses %j in one line that names the setting and the rule, never the value', (source, message) => {
    expect(() => readSettings(source)).toThrow(new Failure(message));
    expect(message).not.toContain('secret');
  });

  it.each([
    'secret/@',
    'secret/',
    'secret@/',
    '1/secret',
    'secret?',
    'secret@?',
    'secret#',
    'secret%',
    'secret%zz',
    'secret%ff',
  ])('says how the password %s is written in an address', (password) => {
    const source = { DATABASE_URL: `postgresql://user:${password}@db/x` };
    const rule = 'must percent-encode its user and password: @ is %40, : %3A, / %2F, ? %3F, # %23, % %25';
    expect(() => readSettings(source)).toThrow(new Failure(`DATABASE_URL ${rule}`));
  });

  it.each([
    ['sslmode=verify-full&sslrootcert=/missing', 'has an sslrootcert that cannot be read: no such file or directory'],
    ['sslmode=verify-full&sslrootcert=/', 'has an sslrootcert that cannot be read: illegal operation on a directory'],
    ['sslmode=verify-full&sslrootcert=/dev/null', 'has an sslrootcert that is no certificate in PEM'],
    ['sslmode=require&sslcert=/dev/null&sslkey=/dev/null', 'has an sslcert and an sslkey that are no pair in PEM'],
    ['sslmode=require&sslkey=/dev/null', 'must have both sslcert and sslkey, or neither'],
    ['sslmode=verify-fully', 'must have one of these as sslmode: disable, require, verify-ca, verify-full'],
    ['sslmode=prefer', 'must have one of these as sslmode: disable, require, verify-ca, verify-full'],
    ['sslmode=verify-ca', 'must have an sslrootcert for sslmode=verify-ca'],
    ['sslmode=require&sslrootcert=system', 'must have sslmode=verify-full for sslrootcert=system'],
    ['sslrootcert=/dev/null', 'must have an sslmode, such as verify-full, beside its certificates'],
    ['ssl=true', 'must ask for TLS by sslmode, sslrootcert, sslcert, sslkey, not by ssl'],
  ])('refuses the TLS of %s, which can never work', (parameters, rule) => {
    const source = { DATABASE_URL: `${DATABASE_URL}?${parameters}` };
    expect(() => readSettings(source)).toThrow(new Failure(`DATABASE_URL ${rule}`));
  });

  it('takes the mode of TLS from PGSSLMODE where the address has none', () => {
    const read = (address: string, PGSSLMODE: string) =>
      readSettings({ DATABASE_URL: address, PGSSLMODE }).DATABASE_URL;
    expect(read(DATABASE_URL, 'require')).toBe(`${DATABASE_URL}?sslmode=require`);
    expect(read(`${DATABASE_URL}?sslmode=disable`, 'require')).toBe(`${DATABASE_URL}?sslmode=disable`);
    expect(() => read(DATABASE_URL, 'allow')).toThrow(
      /^DATABASE_URL must have one of these as sslmode.*\(given by PGSSLMODE\)$/,
    );
    const socket = 'postgresql://me@%2Frun%2Fpostgresql/db';
    expect(read(socket, 'require')).toBe(socket);
  });

  it('names every fault at once', () => {
    expect(() => readSettings({ PORT: 'x', LOG_LEVEL: 'loud' })).toThrow(/DATABASE_URL.*\nPORT.*\nLOG_LEVEL/);
  });
});

describe('the README', () => {
  it('has the table of settings', () => {
    const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8');
    const rows = [...readme.matchAll(/^\| `([A-Z_]+)` +\| (?:`(.+?)`)? *\| (.+?) +\|$/gm)];
    const shown = rows.map(([, name, fallback = '', meaning]) => ({ name, fallback, meaning }));
    const known = Object.entries<{ default: string | undefined; meaning: string }>(SETTINGS);
    expect(shown).toEqual(known.map(([name, { default: fallback = '', meaning }]) => ({ name, fallback, meaning })));
  });
});
