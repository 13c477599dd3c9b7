import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ERRORS } from './error-code.js';

describe('the table of error codes', () => {
  it.each(['README.md', 'docs/interface.md'])('in %s has each with its status', (file) => {
    const text = readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8');
    const rows = [...text.matchAll(/^\| (\d{3}(?:, \d{3})*) +\| (`.+?) +\|/gm)];
    const shown = rows.flatMap(([, statuses = '', cell = '']) => {
      const all = statuses.split(', ').map(Number); // one for each code, or one for all
      return [...cell.matchAll(/`(.+?)`/g)].map(([, code], at) => ({ code, status: all[at] ?? all[0] }));
    });
    const known = Object.entries(ERRORS).map(([code, { status }]) => ({ code, status }));
    expect(new Set(shown)).toEqual(new Set(known));
    expect(shown).toHaveLength(known.length);
  });
});
