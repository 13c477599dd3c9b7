import { globSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { SCENARIOS } from './scenarios.ts';

it('documents name faults that exist', () => {
  const text = globSync(['*.md', 'docs/**/*.md'])
    .map((file) => readFileSync(file, 'utf8'))
    .join('\n');
  const rows = Array.from(text.matchAll(/Faults: (.+?) +\|/g), ([, list = '']) => list).join();
  const named = [...text.matchAll(/npm run faults [^`\n]*--only ([\w-]+)/g), ...rows.matchAll(/`([\w-]+)`/g)].map(
    ([, name]) => name,
  );
  expect(named.length).toBeGreaterThan(5);
  expect(Object.keys(SCENARIOS)).toEqual(expect.arrayContaining(named));
});
