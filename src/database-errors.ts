import { errorReader, type Kind, type RequestSession, statementNames } from './lib/postgres/index.ts';
import { withoutSecrets } from './safe-text.ts';
import type { Settings } from './settings.ts';

/** Sessions and statements of this program bear its name in PostgreSQL. */
const PROGRAM = 'inventory';
export const applicationName = (purpose: string) => `${PROGRAM} ${purpose}`;
export const statementName = statementNames(PROGRAM);

/** A session for requests. */
export function sessionOf(settings: Settings, purpose: string): RequestSession {
  const { DATABASE_URL: databaseUrl, REQUEST_DEADLINE_MS: deadlineMs } = settings;
  return { databaseUrl, program: PROGRAM, purpose, deadlineMs };
}

/** What the migrations make. Any other table, function or unique rule is the operator's own. */
export const OUR_OBJECTS = {
  functions: [
    ...['server_life', 'present_server_life', 'stock_changed_by', 'stock_change_reason', 'record_stock_change'],
    ...['record_truncated_stock', 'mark_unrecorded_change', 'refuse_stock_change_edit', 'note_pruned_stock_change'],
    'stock_witness',
  ],
  tables: [
    ...['inventory_item', 'stock_change', 'stock_change_pruned', 'unrecorded_change', 'api_key', 'server_life_token'],
  ],
  uniqueIndexes: [
    ...['inventory_item_pkey', 'api_key_pkey', 'api_key_key_sha256_key', 'stock_change_pkey'],
    ...['stock_change_idempotency_key', 'server_life_token_pkey'],
  ],
};

/** SQL for "run as <owner> in the database <name>, …". With a short lock_timeout, no request waits long behind it. */
export const AS_OWNER = `(SELECT format('run as %s in the database %I, with search_path = %s and lock_timeout = ''500ms''',
  relowner::regrole, current_database(), relnamespace::regnamespace) FROM pg_class WHERE oid = to_regclass('inventory_item'))`;

/** Says as whom: the service's own role is often not the owner. */
export const MIGRATE = 'run "inventory migrate" as the owner of the tables (in DATABASE_URL)';

// In a wrong database, "inventory migrate" would make an empty store.
export const NOT_NEWEST = `the database has no inventory tables, or not the newest; if DATABASE_URL names the right database, ${MIGRATE}; if nothing is to migrate, "inventory check" says what is missing`;

/** Why an update or an import is refused if a trigger changed its rows. */
export const NOT_AS_REQUESTED = 'a trigger changed the row or kept it back; let the trigger raise an error instead';

const IN_THE_WAY = 'another transaction was in the way; try again; after a restore run "inventory migrate" first';

const SEQUENCE_OF_HISTORY = 'stock_change_id_seq';

/** Before the library's own. */
const KINDS: readonly Kind[] = [
  [new RegExp(`^22P02 .*${NOT_AS_REQUESTED}$`), 'refused', NOT_AS_REQUESTED],
  [
    new RegExp(`^2200H .*${SEQUENCE_OF_HISTORY}$`),
    'not_applied',
    'the ids of the history are used up ($1); as the owner, raise its MAXVALUE (ALTER SEQUENCE), or set it to the newest id (setval)',
    false,
  ],
  // Only imports add rows: a trigger brought two to one id, or an import and somebody else added the same.
  [
    /^23505 (?:\S+ )?inventory_item_pkey$/,
    'refused',
    'another transaction, or a trigger, gave two rows the same id; nothing was written, try again',
  ],
  // The ids of the history may lag behind replicated rows: each attempt takes the next one, and "inventory migrate"
  // repairs them. Or another process has just stored the same key.
  [new RegExp(`^23505 (?:\\S+ )?(?:${OUR_OBJECTS.uniqueIndexes.join('|')})$`), 'not_applied', IN_THE_WAY],
  // A table, column, type or function is not there (yet).
  [/^(?:42P01|42703|42704|42883)/, 'not_applied', NOT_NEWEST],
  [
    /^42501(?! (?:ExecWithCheckOptions|check_enable_rls))/, // those are of row security
    'not_applied',
    'the role of DATABASE_URL lacks a right ($1); a service needs what "inventory check" names, commands need the owner of the tables, and an import also TEMPORARY on the database ("Start" in docs/operations.md)',
    false,
  ],
  [
    /^(?:26|42P05)/,
    'not_applied',
    'a pooler does not keep the named statements of its clients ($1); use PgBouncer 1.21 or later with max_prepared_statements above 0, or session mode (docs/deployment.md)',
  ],
  [/^40P01/, 'not_applied', IN_THE_WAY],
];

/** What an error of the database means for this service: sessions and services read errors by these alone. */
export const errors = errorReader({
  functions: OUR_OBJECTS.functions,
  kinds: KINDS,
  texts: [NOT_AS_REQUESTED, SEQUENCE_OF_HISTORY],
  withoutSecrets,
});
export const { failureOf, mayReadAgain, mayWriteAgain, readFailure, writeFailure } = errors;
