import { globSync, readFileSync } from 'node:fs';

/** Prints how large the project is, beside the last release of dev/releases.csv. Nothing judges it. */

const sum = (count: (text: string) => number, patterns: string[], exclude: string[] = []) =>
  globSync(patterns, { exclude: ['**/node_modules/**', '**/generated/**', ...exclude] })
    .map((file) => count(readFileSync(file, 'utf8')))
    .reduce((total, size) => total + size, 0);
const lines = (text: string) => text.split('\n').length - 1;
const words = (text: string) => text.match(/\S+/g)?.length ?? 0;
const packages = (text: string) => Object.keys((JSON.parse(text) as { packages: object }).packages).length - 1;

const now = [
  sum(lines, ['src/**/*.ts'], ['**/*.spec.ts']),
  sum(lines, ['src/**/*.spec.ts']),
  sum(lines, ['test/**/*.ts']),
  sum(lines, ['lab/**/*.ts']),
  sum(words, ['*.md', '{docs,src,test,lab,deploy}/**/*.md']),
  sum(packages, ['package-lock.json']),
];
const rows = readFileSync('dev/releases.csv', 'utf8').trim().split('\n');
const [names = [], last = []] = [rows[0], rows.at(-1)].map((row) => row?.split(','));
console.log(
  `size: ${now.map((size, at) => `${names[at + 1]} ${size} (${last[at + 1]})`).join(', ')}; in brackets, ${last[0]}`,
);
