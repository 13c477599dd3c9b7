import { execFileSync } from 'node:child_process';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { expect, it } from 'vitest';

/** Files by which tools find their way; what documents name, `documents.spec.ts` tries. */
const FILES = [
  ...['.ci/run', '.dockerignore', '.gitignore', '.prettierignore', 'Dockerfile', 'docker-compose.yml', 'package.json'],
  ...['eslint.config.js', 'nest-cli.json', 'vitest.config.ts'],
  ...globSync([
    '.github/**/*.yml',
    'tsconfig*.json',
    'lab/**/{tsconfig.json,package.json,go.mod,*.yml}',
    'test/**/tsconfig.json',
  ]),
].filter((file) => !file.includes('node_modules'));

/** The folders of the project: the first part of a path that is meant. */
const FOLDERS = [...globSync('*/'), ...globSync('{lab,src,test}/*/')].map((folder) => basename(folder));

/** Made by a tool, so it may be missing. */
const MADE = /(?:^|\/)(?:dist|node_modules|generated|results)(?:\/|$)/;

it.each(FILES)('%s names folders and files that are there', (file) => {
  const text = readFileSync(file, 'utf8').replaceAll(/https?:\S+|\/dev\/null/g, '');
  const paths = text.matchAll(new RegExp(`(?<![\\w@./-])/?((?:${FOLDERS.join('|')})/[\\w./-]*)`, 'g'));
  const named = Array.from(paths, ([, path = '']) => path.replace(/\/?\.?$/, '')).filter((path) => !MADE.test(path));
  // Filters of tests begin within a folder.
  const isThere = (path: string) => globSync(`{,src/,test/}${path}*`).length > 0;
  expect(named.filter((path) => !isThere(path))).toEqual([]);
});

it.runIf(existsSync('.git'))('no file is ignored by Git that is checked in', () => {
  const ignored = execFileSync('git', ['ls-files', '--cached', '--ignored', '--exclude-standard'], {
    encoding: 'utf8',
  });
  expect(ignored).toBe('');
});
