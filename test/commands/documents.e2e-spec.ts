import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { expect, it, onTestFinished } from 'vitest';
import { exportedCsv, CSV_HEADER } from '../support/stock.ts';
import { shell } from './inventory-command.ts';
import { openStore } from './store.ts';

/** The lines of a page that run the command to its end, whatever runs them in a container. */
function examplesOf(page: string): string[] {
  const blocks = readFileSync(page, 'utf8').matchAll(/^```sh\n([^]*?)^```$/gm);
  const lines = [...blocks].flatMap(([, block = '']) => block.replaceAll('\\\n', '').split('\n'));
  return lines.flatMap((line) => /(?:^|(?:inventory|--) )(inventory (?!.*--follow)[a-z].*)$/.exec(line)?.[1] ?? []);
}

/** Runs the lines of pages on a store that has the demo stock as the changes after a number. */
async function runExamples(pages: readonly string[], newestChange: number) {
  const store = await openStore();
  const folder = mkdtempSync(`${tmpdir()}/inventory-documents-`);
  onTestFinished(() => rmSync(folder, { recursive: true }));
  // What the lines name: a key, a change, and a file that psql writes.
  await store.sql(`INSERT INTO api_key (id, name, key_sha256, scopes) VALUES ('4kd02hx9', 'till', sha256('x'), '{}');
    SELECT setval(pg_get_serial_sequence('stock_change', 'id'), ${newestChange + 1}, false)`);
  await store.inventory('import', 'prisma/demo-stock.csv');
  writeFileSync(`${folder}/undo.csv`, 'petId,quantity,status,exported\n2,1,available,2:available-7:\n');

  const examples = pages.flatMap(examplesOf);
  expect(examples.length).toBeGreaterThan(3);
  await shell(examples.join('\n'), store.url, folder);
  return { store, folder };
}

it('each line of README.md that runs the command does so, on the first day too', async () => {
  const { folder } = await runExamples(['README.md'], 0);
  const demo = readFileSync('prisma/demo-stock.csv', 'utf8');
  expect(readFileSync(`${folder}/then.csv`, 'utf8')).toBe(exportedCsv(demo.slice(CSV_HEADER.length)));
});

it('each line of docs/ that runs the command does so', async () => {
  const { store } = await runExamples(globSync('docs/*.md').sort(), 4710);
  expect(await store.stock()).toContain('\n2,1,');
});
