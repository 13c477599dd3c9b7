import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { HISTORY_LOCK } from '../../src/history/history-lock.ts';
import { CSV_HEADER } from '../support/stock.ts';
import { folder, SHEET, store, useImportStore } from './import-store.ts';
import { SHELL_COMMAND } from './inventory-command.ts';

useImportStore(SHEET, 'recorded');

/** Runs a command on a pseudo terminal, by the program `script` of util-linux. */
function onTerminal(command: string) {
  const child = spawn('script', ['-qec', `${SHELL_COMMAND} ${command}`, '/dev/null'], {
    cwd: folder,
    env: { ...process.env, DATABASE_URL: store.url },
  });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
  return {
    shows: (line: RegExp) => expect.poll(() => text, { timeout: 20_000 }).toMatch(line),
    end: async () => {
      await once(child, 'close');
      return [child.exitCode, text.slice(text.lastIndexOf('\x1b[K') + 3)];
    },
  };
}

describe.runIf(existsSync('/usr/bin/script'))('on a terminal, one line shows how far long work is', () => {
  it('import: rows read; the line is gone at the end', async () => {
    const pipe = join(folder, 'pipe.csv');
    execFileSync('mkfifo', [pipe]);
    const importing = onTerminal('import pipe.csv');
    const file = await open(pipe, 'w');
    await file.write(`${CSV_HEADER}1,13,available\n2,7,available\n`);
    await importing.shows(/\x1b\[K2 rows read, \d+ s\r/);
    await file.close();
    const changed = 'changed:\r\n  pet 1: 12 → 13\r\n';
    expect(await importing.end()).toEqual([0, expect.stringMatching(`^${changed}0 added, 1 changed, .* s\r\n$`)]);
  });

  it('history --verify: the time that has passed; history prune: rows deleted', async () => {
    const writer = await store.database.session('LOCK TABLE stock_change');
    const verifying = onTerminal('history --verify');
    await verifying.shows(/\x1b\[Kverifying, 1 s\r/);
    await writer.end();
    expect(await verifying.end()).toEqual([0, 'the history of all 3 pets is whole\r\n']);
    const other = await store.database.session(HISTORY_LOCK);
    const pruning = onTerminal('history prune --before 0s');
    await pruning.shows(/\x1b\[K0 rows deleted, \d+ s\r/);
    await other.end();
    expect(await pruning.end()).toEqual([0, expect.stringMatching(/^0 rows older than \S+ deleted\r\n$/)]);
  });
});
