import { globSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const FILES = globSync('src/lib/**/*.{ts,md}');
const SERVICE = /\bpets?\b|petId|stock|inventory|psk_|api.?key/i;

it.each([
  ['speaks of this service', SERVICE],
  ['reads the environment', /process\.env/],
])('no file of the libraries %s', (_, words) => {
  expect(FILES.length).toBeGreaterThan(30);
  const lines = FILES.flatMap((file) =>
    readFileSync(file, 'utf8')
      .split('\n')
      .map((line, at) => `${file}:${at + 1}: ${line.trim()}`),
  );
  expect(lines.filter((line) => words.test(line))).toEqual([]);
});
