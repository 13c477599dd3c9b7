import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';

const DOCUMENTS = globSync(['*.md', '{docs,src,test}/**/*.md']);

const read = (file: string) => readFileSync(file, 'utf8');
const all = (text: string, pattern: RegExp) => Array.from(text.matchAll(pattern), ([, found = '']) => found);
/** Without examples of code. */
const proseOf = (file: string) => read(file).replaceAll(/^```[^]*?^```$/gm, '');

/** As GitHub makes them of headings. */
function anchorsOf(document: string): string[] {
  const headings = all(proseOf(document), /^#+ (.+)$/gm);
  return headings.map((heading) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

describe.each(DOCUMENTS)('%s', (document) => {
  it('links to files and headings that exist', () => {
    const links = all(proseOf(document), /(?:\]\(|^\[[^\]]+\]: )([^\s)]+)/gm);
    const broken = links.filter((link) => {
      if (/^(https?|mailto):/.test(link)) return false;
      const [path = '', anchor] = link.split('#');
      const file = path === '' ? document : join(dirname(document), path);
      return !existsSync(file) || (anchor !== undefined && !anchorsOf(file).includes(anchor));
    });
    expect(broken).toEqual([]);
  });

  it('names files that exist', () => {
    const prose = proseOf(document);
    const paths = all(prose, /`((?:src|test|lab|dev|deploy|docs|prisma)\/[^\s`]*)`/g);
    const isMissing = (path: string) => globSync(path.replaceAll(/<\w+>/g, '*')).length === 0;
    expect(paths.filter(isMissing)).toEqual([]);
  });
});

it('docs/guarantees.md names tests that it links to', () => {
  const text = read('docs/guarantees.md');
  const rows = text.split('\n').filter((line) => line.startsWith('| '));
  expect(rows.length).toBeGreaterThan(10);
  const named = rows.slice(2).map((row) => all(row, /\[([^\]]+)\](?!\()/g));
  expect(named.filter((tests) => tests.length === 0)).toEqual([]);
  expect(all(text, /^\[([^\]]+)\]: /gm).toSorted()).toEqual([...new Set(named.flat())].toSorted());
});
