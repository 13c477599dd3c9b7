import { it } from 'vitest';
import { createDatabase } from '../../../test/support/database.ts';
import { expectFile } from '../../../test/support/statement-files.ts';
import { boundsOfRequest } from '../../lib/postgres/index.ts';
import { LONGEST_NAME } from '../../safe-text.ts';
import { readSettings } from '../../settings.ts';
import { MAX_PET_ID, MAX_QUANTITY, MIN_PET_ID } from '../item-limits.ts';
import { CHANGES, NEXT_ITEMS } from './list-cache.ts';
import { MOST_PER_STATEMENT } from './quantity-updates.ts';
import { FULL, LONE, PLAIN } from './update-statement.ts';

const { REQUEST_DEADLINE_MS } = readSettings({ DATABASE_URL: 'postgres://localhost' });
const TIMEOUT_MS = boundsOfRequest(REQUEST_DEADLINE_MS).query_timeout;

const LIFE = `the life of the server that the request's snapshot names (src/keys/snapshot.ts)`;
const WITNESS = `witness: a fingerprint of tables, triggers and server; null if the history may lack a change`;

const columnsOf = (outcomes: string) => `
  - n: the place of the update, from 1
  - outcome: ${outcomes}
  - the rest: the state that the statement found, that is the quantity and the columns that an update keeps`;
const BOUNDS = `
  $1: until when PostgreSQL may begin, by its own clock; milliseconds since 1970-01-01 UTC
  $2: transaction_timeout in milliseconds; ${TIMEOUT_MS} with the default REQUEST_DEADLINE_MS`;
const MEMBERS = `
  $3: petId, ${MIN_PET_ID} to ${MAX_PET_ID}
  $4: the new quantity, 0 to ${MAX_QUANTITY}
  $5: the author of the change: "key:" and the id of the API key
  $6: X-Request-Id, 1 to ${LONGEST_NAME} of A-Z, a-z, 0-9, _ and -
  $7: Change-Reason, of the same form; null without one`;
const ARRAYS = `
  Each array has one element for each update, 1 to ${MOST_PER_STATEMENT}.`;
const TAGS = 'the tags of If-Match, such as available-12, with blanks between them; null without a condition';
const UPDATE_PROMISES = `
  Promise: it waits for no session that holds a pet. Each update that is done is committed with its history row. If a
  trigger changes a row or keeps it back, the statement fails with SQLSTATE 22P02 and writes nothing.`;

/** For those who read, explain and compare them; `npx vitest run src/inventory/fast/statements -u` writes them anew. */
it.each([
  [
    'changed-pets',
    CHANGES,
    `
    Reads which pets have changed since a kept list, and what became of them. The columns of its row:
    - transactions: the snapshot of this reading
    - ${WITNESS}
    - changes: the id of each changed pet, and its item as JSON; null if the pet is gone

    $1: the snapshot of the kept list
    $2: ${LIFE}

    Promise: if the witness is that of the kept list, no other pet has changed (docs/decisions/kept-list.md). After more
    changes than the limit, or after one without a history row, the witness is null, and the stock is read whole.

    Figure of 2026-11-27: PostgreSQL takes 0.4 ms of CPU time for one changed pet, 0.7 for 64, 18 for 4,096. To read the
    stock whole takes 10 ms for 10,000 pets, and 66 for 100,000; the service then makes all pieces anew.`,
  ],
  [
    'next-items',
    NEXT_ITEMS,
    `
    Reads the next items of the whole stock. The columns of its row:
    - transactions: the snapshot of the transaction
    - ${WITNESS}
    - items: in ascending petId as JSON, each behind a comma
    - next: the petId to go on with; null at the end

    $1: ${LIFE}
    $2: the petId to begin with, ${MIN_PET_ID} to ${MAX_PET_ID}

    Promise: all readings of a REPEATABLE READ transaction that locked the table first are of one moment.

    Figure of 2026-11-27: PostgreSQL takes 4 to 5 ms of CPU time for some 6,000 items. The event loop of the service is
    held while it reads the row, so a statement has no more of them.`,
  ],
  [
    'update-lone',
    LONE,
    `
    Sets the quantity of one pet, with or without If-Match, but without an Idempotency-Key. The columns of its row:
    ${columnsOf('done or precondition_failed').trim()}
    ${BOUNDS}
    ${MEMBERS.trim()}
    $8: ${TAGS}
    ${UPDATE_PROMISES}

    Promise: if the statement locked the pet, it returns a row. Without a row, it wrote nothing: the pet is absent,
    another session holds it, or it is too late. Then update-plain.sql or update-full.sql tells which.

    Figure of 2026-11-27: PostgreSQL takes 180 µs of CPU time for it, 220 for update-plain.sql with one update, and 300
    for update-full.sql.`,
  ],
  [
    'update-plain',
    PLAIN,
    `
    Sets the quantities of different pets, without If-Match and Idempotency-Key. It has one row for each update, in
    their order, or none if it is too late. Its columns:
    ${columnsOf('done, busy (another session holds the pet) or absent').trim()}
    ${ARRAYS}
    ${BOUNDS}
    ${MEMBERS.trim()}
    ${UPDATE_PROMISES}

    Figure of 2026-11-27: PostgreSQL takes 0.4 ms of CPU time for 8 updates, and 1.6 for 64. For the same updates,
    update-full.sql takes 0.57 and 2.4 ms.`,
  ],
  [
    'update-full',
    FULL,
    `
    Sets the quantities of pets. It has one row for each update, in their order, or none if it is too late. Its columns:
    ${columnsOf('done, replayed, precondition_failed, key_reused, absent, busy or no_history_row').trim()};
    of a repetition, the state that the first update made
    ${ARRAYS}
    ${BOUNDS}
    ${MEMBERS.trim()}
    $8: the quantity that the update before it of the same pet sets; null if there is none
    $9: whether it is the last one of its pet; only this one writes the pet, but each writes a history row
    $10: ${TAGS}
    $11: Idempotency-Key, 1 to ${LONGEST_NAME} of A-Z, a-z, 0-9, _ and -; null without one
    ${UPDATE_PROMISES}

    Promise: a key of an author takes effect once. If the history has it, the outcome is replayed or key_reused. If
    another session has just taken it, the outcome is no_history_row, and the service sends the update again.

    Figure of 2026-11-27: PostgreSQL takes 300 µs of CPU time for one update, 570 for 8, and 2,400 for 64: 37 for each.
    So updates that wait share a statement.`,
  ],
])('PostgreSQL gets the statement of %s.sql', async (name, sql, head) => {
  await expectFile(await createDatabase(), `${name}.sql`, sql, head);
});
