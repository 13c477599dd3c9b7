import { it } from 'vitest';
import { createDatabase } from '../../test/support/database.ts';
import { expectFile } from '../../test/support/statement-files.ts';
import { CHECK_KEYS, CHECK_KEYS_AND_SNAPSHOT, MOST_KEYS } from './key-check.ts';

const COLUMNS_AND_PARAMETER = `
  A key has a row if the table has it. If the table has none of them, there is one row without sha256. Columns:
  - life and transactions: the life of the server and its snapshot (src/keys/snapshot.ts), or null
  - sha256 in hexadecimal, id, and scopes with blanks between them
  - failure: revoked_key or expired_key; null if the key is live

  $1: the SHA-256 of each key, once; 1 to ${MOST_KEYS} of 32 bytes

  Promise: a revoked or expired key is refused from its next request on, because the statement is sent after the
  request has come.`;

/** For those who read, explain and compare them; `npx vitest run src/keys/statements -u` writes them anew. */
it.each([
  [
    'key-check',
    CHECK_KEYS,
    `
    Checks the keys of all requests that wait, if all of these are updates.
    ${COLUMNS_AND_PARAMETER}

    Figure of 2026-11-27: PostgreSQL takes 50 µs of CPU time for one key, 63 for 8, 165 for 64. So requests share it.`,
  ],
  [
    'key-check-and-snapshot',
    CHECK_KEYS_AND_SNAPSHOT,
    `
    Checks the keys of all requests that wait, and reads for lists what has been committed.
    ${COLUMNS_AND_PARAMETER}

    Promise: the snapshot sees each commit that was confirmed before the request came. A kept list with the same life
    and transactions is still true. A standby has no life, so no list is kept there.

    Figure of 2026-11-27: PostgreSQL takes 55 µs of CPU time for one key, 74 for 8, 200 for 64. That is up to a fifth
    more than key-check.sql, which serves updates.`,
  ],
])('PostgreSQL gets the statement of %s.sql', async (name, sql, head) => {
  await expectFile(await createDatabase(), `${name}.sql`, sql, head);
});
