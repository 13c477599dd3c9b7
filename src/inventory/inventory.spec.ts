import { existsSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const [prose = ''] = /\/\*\*.*?\*\//s.exec(readFileSync(new URL('inventory.ts', import.meta.url), 'utf8')) ?? [];
const promises = prose
  .replaceAll(/\n \*( {2,}| ?)/g, (_, indent: string) => (indent.length > 1 ? ' ' : '\n'))
  .split('\n')
  .filter((line) => line.startsWith('- '));

it.each(promises)('names the test: %s', (promise) => {
  const [, names = ''] = /\(tests?: ([\w, -]+)\)\.$/.exec(promise) ?? [];
  expect(names).not.toBe('');
  const all = [...promise.matchAll(/\(tests?: ([^)]+)\)/g)].flatMap(([, list = '']) => list.split(', '));
  for (const name of all) {
    const file = new URL(`../../test/inventory-service/${name}.e2e-spec.ts`, import.meta.url);
    expect([name, existsSync(file)]).toEqual([name, true]);
  }
});
