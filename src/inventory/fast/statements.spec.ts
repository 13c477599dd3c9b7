import { expect, it } from 'vitest';
import { CHECK_KEYS, CHECK_KEYS_AND_SNAPSHOT } from '../../keys/key-check.ts';
import { CHANGES, NEXT_ITEMS } from './list-cache.ts';
import { FULL, LONE, PLAIN } from './update-statement.ts';

/** For those who read, explain and compare them; `npx vitest run src/inventory/fast/statements -u` writes them anew. */
it.each([
  ['../../auth/key-check', CHECK_KEYS],
  ['../../auth/key-check-and-snapshot', CHECK_KEYS_AND_SNAPSHOT],
  ['changed-pets', CHANGES],
  ['next-items', NEXT_ITEMS],
  ['update-lone', LONE],
  ['update-plain', PLAIN],
  ['update-full', FULL],
])('PostgreSQL gets the statement of %s.sql', async (name, sql) => {
  await expect(`${sql.replace(/^\n/, '').trimEnd()}\n`).toMatchFileSnapshot(`${name}.sql`);
});
