import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { readSettings, SETTINGS } from './settings.js';
import { Failure } from './errors/failure.js';

const DATABASE_URL = 'postgresql://user:secret@db.example/inventory';
const WITHOUT_PASSWORD = 'postgresql://user@db.example/inventory';

describe('readSettings', () => {
  it('needs nothing but a database', () => {
    expect(readSettings({ DATABASE_URL })).toMatchObject({ DATABASE_URL, PORT: 3000, LOG_LEVEL: 'info' });
  });

  it.each([
    ['DATABASE_URL', undefined, 'is required'],
    ['DATABASE_URL', 'mysql://secret@db/x', 'must be a postgresql:// address'],
    ['DATABASE_URL', 'postgresql://u:secret@one:5432,two:5432/x', 'must name one host'],
    ['PORT', '70000', 'must be an integer from 0 to 65535'],
    ['PORT', '3000.5', 'must be an integer from 0 to 65535'],
    ['PORT', '', 'must be an integer from 0 to 65535'],
    ['CORS_ORIGINS', '*', 'must be origins like https://shop.example, separated by commas'],
    ['CORS_ORIGINS', 'https://shop.example/', 'must be origins like https://shop.example, separated by commas'],
    ['BOOTSTRAP_API_KEY', 'secret', 'must be 32 to 256 characters of A-Z a-z 0-9 . _ ~ + / - (RFC 6750)'],
    ['REQUEST_DEADLINE_MS', '10000', 'must be an integer from 100 to 9000'],
  ])('refuses a %s of %j in one line that names the setting and the rule, never the value', (name, value, rule) => {
    expect(() => readSettings({ DATABASE_URL, [name]: value })).toThrow(new Failure(`${name} ${rule}`));
  });

  it.each([
    [DATABASE_URL, 'package.json', 'must not be set where DATABASE_URL has a password'],
    [WITHOUT_PASSWORD, '/secret', 'names a file that cannot be read: no such file or directory'],
    [WITHOUT_PASSWORD, '/dev/null', 'names a file that is empty'],
  ])('refuses for %s the password in %s', (address, file, rule) => {
    const source = { DATABASE_URL: address, DATABASE_PASSWORD_FILE: file };
    expect(() => readSettings(source)).toThrow(new Failure(`DATABASE_PASSWORD_FILE ${rule}`));
  });

  it.each('secret/@ secret/ secret@/ 1/secret secret? secret@? secret# secret% secret%zz secret%ff'.split(' '))(
    'says how the password %s is written in an address',
    (password) => {
      const source = { DATABASE_URL: `postgresql://user:${password}@db/x` };
      const rule = 'must percent-encode its user and password: @ is %40, : %3A, / %2F, ? %3F, # %23, % %25';
      expect(() => readSettings(source)).toThrow(new Failure(`DATABASE_URL ${rule}`));
    },
  );

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
