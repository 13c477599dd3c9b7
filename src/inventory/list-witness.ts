/**
 * NULL while the history may miss changes. Otherwise a text; two equal texts mean that it missed none between them. Both
 * tables are ordinary ones that nothing stands in front of; both triggers are on, which their owner can change and change
 * back; the columns and the words for a status are the same; and the session has lived all the while, on this very server.
 *
 * @param session the statement's parameter that holds the session's token
 */
export const witness = (session: `$${number}`) => `(
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
