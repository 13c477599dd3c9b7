import { PETS_PER_PIECE } from './stock-list.js';

/** Beyond so many changes the stock is read whole, which takes about as long. */
const MOST_CHANGES = 4_096;
/** Of a stock that is read whole. What one statement brings holds the event loop while it is read. */
export const PETS_PER_STATEMENT = 6 * PETS_PER_PIECE;

/**
 * NULL while the history may miss changes. Otherwise a text; two equal texts mean that it missed none between them. Both
 * tables are ordinary ones that nothing stands in front of; both triggers are on, which their owner can change and change
 * back; the columns and the words for a status are the same; and the session has lived all the while, on this very server.
 *
 * @param session the statement's parameter that holds the session's token
 */
const witness = (session: `$${number}`) => `(
  SELECT string_agg(fact, ' ' ORDER BY fact) FROM (
    SELECT concat_ws(' ', oid, xmin), (relkind = 'r' AND NOT (relrowsecurity OR relhassubclass OR relhasrules))::int
      FROM pg_class WHERE oid IN ('inventory_item'::regclass, 'stock_change'::regclass)
    UNION ALL SELECT concat_ws(' ', tgname, tgenabled::text, xmin),
        (tgname = 'inventory_item_history' AND tgenabled IN ('O', 'A') OR tgname = 'inventory_item_replicated' AND tgenabled = 'R')::int
      FROM pg_trigger WHERE tgrelid = 'inventory_item'::regclass
    UNION ALL SELECT concat_ws(' ', tgname, xmin), -1 -- before each row that is inserted, it may keep the row out
      FROM pg_trigger WHERE tgrelid = 'stock_change'::regclass AND tgtype & 7 = 7 AND tgenabled <> 'D'
    UNION ALL SELECT concat_ws(' ', attname, xmin), 0
      FROM pg_attribute WHERE attrelid = 'inventory_item'::regclass AND attnum > 0
    UNION ALL SELECT concat_ws(' ', enumlabel, xmin), 0 FROM pg_enum WHERE enumtypid = 'pet_status'::regtype
    UNION ALL SELECT 'session', 1 FROM pg_stat_get_activity(split_part(${session}::text, ' ', 1)::int)
       WHERE extract(epoch FROM backend_start)::text = split_part(${session}::text, ' ', 2)
  ) AS facts (fact, sound) HAVING sum(sound) = 5)`; // two tables, two triggers, and the session

const ITEM = `'{"petId":' || item.pet_id || ',"quantity":' || item.quantity || ',"status":"' || item.status || '"}'`;

/**
 * Which pets have changed since a snapshot, its text first and then the session's token, and what became of them. Each is
 * looked up by a scalar subquery, for PostgreSQL may plan a join as a scan of the whole table. A constant text, which Prisma
 * calls unsafe: a template would be put together anew for every list, which costs a quarter of the round trip's CPU time.
 */
export const CHANGES = `
  WITH recent AS MATERIALIZED (
    SELECT pet_id FROM stock_change WHERE changed_in >= pg_snapshot_xmax($1::pg_snapshot)
    UNION ALL
    SELECT pet_id FROM stock_change WHERE changed_in = ANY (ARRAY(SELECT pg_snapshot_xip($1::pg_snapshot)))
    LIMIT ${MOST_CHANGES + 1}
  ), unrecorded AS (
    SELECT FROM unrecorded_change WHERE changed_in >= pg_snapshot_xmax($1::pg_snapshot)
    UNION ALL
    SELECT FROM unrecorded_change WHERE changed_in = ANY (ARRAY(SELECT pg_snapshot_xip($1::pg_snapshot)))
  )
  SELECT pg_current_snapshot()::text AS transactions,
         CASE WHEN (SELECT count(*) FROM recent) <= ${MOST_CHANGES} AND NOT EXISTS (SELECT FROM unrecorded)
              THEN ${witness('$2')} END AS witness,
         (SELECT coalesce(json_agg(json_build_object('petId', pet_id::text, 'item', item) ORDER BY pet_id), '[]')
            FROM (SELECT pet_id, (SELECT ${ITEM} FROM inventory_item AS item WHERE item.pet_id = changed.pet_id) AS item
                    FROM (SELECT DISTINCT pet_id FROM recent) AS changed) AS changed) AS changes`;

/**
 * Before the snapshot of a reading in several statements, which this takes none for: beside a transaction that empties, rewrites
 * or swaps the table a snapshot would wait, and then see neither the old rows nor the new ones.
 */
export const LOCK = 'LOCK TABLE inventory_item IN ACCESS SHARE MODE';

/** The next items of the whole stock, the session's token first and then the pet to begin with. */
export const NEXT_ITEMS = `
  SELECT pg_current_snapshot()::text AS transactions, ${witness('$1')} AS witness,
         string_agg(${ITEM}, ',' ORDER BY pet_id) AS items, max(pet_id) AS last
    FROM (SELECT * FROM inventory_item WHERE pet_id >= $2 ORDER BY pet_id LIMIT ${PETS_PER_STATEMENT}) AS item`;
