import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { pathToFileURL } from 'node:url';
import { onTestFinished } from 'vitest';

/** The name of the migration that comes after the project's. */
export const later = '99990101000000_later';

/** The project's migrations, and one that comes after them. */
export function folderWithLater(): URL {
  const folder = mkdtempSync(`${tmpdir()}/inventory-migrations-`);
  onTestFinished(() => rmSync(folder, { recursive: true }));
  cpSync('prisma/migrations', folder, { recursive: true });
  mkdirSync(`${folder}/${later}`);
  const table = `CREATE TABLE bound AS SELECT current_setting('statement_timeout') AS longest`;
  writeFileSync(
    `${folder}/${later}/migration.sql`,
    `ALTER TABLE inventory_item ADD note text; ${table} -- as the last line`,
  );
  return pathToFileURL(`${folder}/`);
}
