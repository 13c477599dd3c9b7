import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';

const SRC = import.meta.dirname;

/** The files that a file imports, by their paths in src/. */
function importsOf(file: string): string[] {
  const text = readFileSync(join(SRC, file), 'utf8');
  const paths = text.matchAll(/\b(?:from|import)\s*\(?'(\.[^']+)\.[jt]s'/g);
  return Array.from(paths, ([, path]) => join(dirname(file), `${path}.ts`));
}

const files = globSync('**/*.ts', { cwd: SRC, exclude: ['generated/**', '**/*.spec.ts'] });

it.each([
  ['read the environment', /process\.env/, ['health-check.ts', 'settings.ts']],
  ['import OpenTelemetry, whose packages read it, too', /@opentelemetry\//, ['operations/tracing.ts']],
])('only these files %s', (_, pattern, expected) => {
  const found = files.filter((file) => pattern.test(readFileSync(join(SRC, file), 'utf8')));
  expect(found.toSorted()).toEqual(expected);
});

it('no file imports itself by way of others', () => {
  const left = new Map(files.map((file) => [file, importsOf(file)]));
  for (let free: string[] = ['any']; free.length > 0;) {
    free = [...left].flatMap(([file, imports]) => (imports.some((path) => left.has(path)) ? [] : [file]));
    for (const file of free) left.delete(file);
  }
  expect(files).toContain('app.ts');
  expect([...left.keys()]).toEqual([]);
});
