import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { SettingError, readEnvironment, settings } from './environment.js';

const DATABASE_URL = 'postgresql://user:secret@db.example/inventory';

describe('readEnvironment', () => {
  it('needs nothing but a database', () => {
    expect(readEnvironment({ DATABASE_URL })).toMatchObject({ DATABASE_URL, PORT: 3000, LOG_LEVEL: 'info' });
  });

  it.each([
    [{}, 'DATABASE_URL is required'],
    [{ DATABASE_URL: 'mysql://secret@db/x' }, 'DATABASE_URL must be a postgresql:// address'],
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
    [{ DATABASE_URL, REQUEST_DEADLINE_MS: '10000' }, 'REQUEST_DEADLINE_MS must be less than REQUEST_TIMEOUT_MS'],
  ])('refuses %j in one line that names the setting and the rule, never the value', (source, message) => {
    expect(() => readEnvironment(source)).toThrow(new SettingError(message));
    expect(message).not.toContain('secret');
  });

  it('names every fault at once', () => {
    expect(() => readEnvironment({ PORT: 'x', LOG_LEVEL: 'loud' })).toThrow(/DATABASE_URL.*\nPORT.*\nLOG_LEVEL/);
  });
});

describe('the README', () => {
  it('has the table of settings', () => {
    const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8');
    const rows = [...readme.matchAll(/^\| `([A-Z_]+)` +\| (?:`(.+?)`)? *\| (.+?) +\|$/gm)];
    const shown = rows.map(([, name, fallback = '', meaning]) => ({ name, fallback, meaning }));
    const known = Object.entries<{ default?: string; meaning: string }>(settings);
    expect(shown).toEqual(known.map(([name, { default: fallback = '', meaning }]) => ({ name, fallback, meaning })));
  });
});
