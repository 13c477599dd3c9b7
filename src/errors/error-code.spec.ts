import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ERRORS } from './error-code.ts';

describe('the table of error codes in docs/interface.md', () => {
  it('has each code once, with its status', () => {
    const text = readFileSync(new URL('../../docs/interface.md', import.meta.url), 'utf8');
    const rows = [...text.matchAll(/^\| (\d{3}) +\| `(.+?)` +\|/gm)];
    const shown = rows.map(([, status, code]) => `${code} ${status}`);
    const known = Object.entries(ERRORS).map(([code, { status }]) => `${code} ${status}`);
    expect(shown.toSorted()).toEqual(known.toSorted());
  });
});
