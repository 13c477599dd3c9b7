import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { pathToFileURL } from 'node:url';
import { onTestFinished } from 'vitest';

/** The name of the migration that comes after the project's. */
export const later = '99990101000000_later';

/** In their order. */
export const names = readdirSync('prisma/migrations').filter((name) => !name.endsWith('.toml'));

function copyOf(migrations: readonly string[]): string {
  const folder = mkdtempSync(`${tmpdir()}/inventory-migrations-`);
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const name of migrations) cpSync(`prisma/migrations/${name}`, `${folder}/${name}`, { recursive: true });
  return folder;
}

/** The last migration that this version's services need: that of the newest column which they read. */
const LAST_NEEDED = '20261126150000_init';
export const needed = names.slice(0, names.indexOf(LAST_NEEDED) + 1);

export function folderWithNeeded(): URL {
  return pathToFileURL(`${copyOf(needed)}/`);
}

/** The project's migrations, and one that comes after them. */
export function folderWithLater(): URL {
  const folder = copyOf(names);
  mkdirSync(`${folder}/${later}`);
  const table = `CREATE TABLE bound AS SELECT current_setting('statement_timeout') AS longest`;
  writeFileSync(
    `${folder}/${later}/migration.sql`,
    `ALTER TABLE inventory_item ADD note text; ${table} -- as the last line`,
  );
  return pathToFileURL(`${folder}/`);
}
