import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach } from 'vitest';
import { type ImportOptions, importStock } from '../../src/commands/import.ts';
import { CSV_HEADER } from '../support/stock.ts';
import { END_MARK, IMPORT_CSV, untilSessionOf } from './inventory-command.ts';
import { openStore, type Store } from './store.ts';

/** The store and the folder of the present file. */
export let store: Store;
export let folder: string;

/**
 * Registers the hooks of a file: each of its tests begins with these pets.
 *
 * @param pets as CSV without a header, by ascending id; stored in another order
 * @param history whether the pets have one
 */
export function useImportStore(pets: string, history: 'recorded' | 'empty'): void {
  const rows = pets
    .trimEnd()
    .replaceAll(/^(.+),(\w+)$/gm, `($1, '$2')`)
    .split('\n')
    .toReversed();
  const insert = `INSERT INTO inventory_item VALUES ${rows.join()}`;
  const unrecorded = `TRUNCATE inventory_item; ${history === 'empty' ? insert : ''}`;
  beforeAll(async () => {
    store = await openStore();
    folder = await mkdtemp(join(tmpdir(), 'inventory-import-'));
  });
  afterAll(() => rm(folder, { recursive: true }));
  beforeEach(async () => {
    await store.sql(`SET session_replication_role = replica; ${unrecorded}; RESET session_replication_role`);
    await store.rewriteHistory('TRUNCATE stock_change');
    if (history === 'recorded') await store.sql(insert);
  });
}

/** Stock with a petId that spreadsheets would round. */
export const BIG = '9912140633506421';
export const SHEET = `1,12,available\n2,7,available\n${BIG},7,available\n`;

/** Stock with the extremes of each member. */
export const EXTREMES =
  '-9223372036854775808,0,sold\n7,12,available\n9007199254740993,3,pending\n9223372036854775807,2147483647,available\n';

export const csv = (...rows: string[]) => [CSV_HEADER.trimEnd(), ...rows, ''].join('\n');
export const edited = (...rows: string[]) => [`${CSV_HEADER.trimEnd()},exported`, ...rows, ''].join('\n');

/** @returns its path */
export async function file(name: string, content: string | Buffer): Promise<string> {
  const path = join(folder, name);
  await writeFile(path, content);
  return path;
}

/** Imports a text in this process; a process for each file would take most of the tests' time. */
export async function importText(text: string, options: Partial<ImportOptions> = {}, name = 'stock.csv') {
  const path = await file(name, text);
  process.env['DATABASE_URL'] = store.url;
  return importStock(path, { new: 'refuse', stale: 'refuse', missing: 'keep', quiet: true, ...options });
}

/** Imports in this process, and adds pets if the options do not say otherwise. @returns the counts */
export async function importFile(path: string, options: Partial<ImportOptions> = {}) {
  process.env['DATABASE_URL'] = store.url;
  const { summary } = await importStock(path, {
    ...{ new: 'add', stale: 'refuse', missing: 'keep' },
    quiet: true,
    ...options,
  });
  const { added, changed, unchanged, removed } = summary;
  return { added, changed, unchanged, removed };
}

/** Imports by the command, and adds pets. */
export function importCsv(pets: string, ...options: string[]) {
  return store.inventoryReading(`${CSV_HEADER}${pets}\n${END_MARK}`, ...IMPORT_CSV, '--new', 'add', ...options);
}

export const untilLockWait = () => untilSessionOf('import', store.database, `wait_event_type = 'Lock'`);
