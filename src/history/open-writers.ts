import { setTimeout as pause } from 'node:timers/promises';
import { Failure, type Query, SQLSTATE } from '../lib/postgres/index.ts';

/** What is visible of the history: the newest change, and the highest id that was pruned. */
export interface View {
  readonly newest: bigint;
  readonly pruned: bigint;
}

/** As pg_locks names transactions. A prepared one keeps its name until PostgreSQL restarts, and is `-1/…` then. */
type Writers = readonly string[];

/**
 * The open transactions that have written history. Each change whose id was given before is visible, or one of these
 * has it: docs/decisions/change-feed.md.
 */
const WRITERS = `
    FROM pg_locks
   WHERE relation = 'stock_change'::regclass AND mode = 'RowExclusiveLock' AND granted
     AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;

/** A statement reads pg_locks after it has taken its snapshot. A standby's locks do not show the writers. */
const VIEW = `
  SELECT coalesce((SELECT max(id) FROM stock_change), 0)::text AS newest, last_id::text AS pruned, ARRAY(SELECT virtualtransaction ${WRITERS}) AS writers
    FROM stock_change_pruned WHERE NOT pg_is_in_recovery()`;

/**
 * Waits until nobody can commit a change up to the newest one any more.
 *
 * @param last nothing is waited for if this is the newest change
 */
export async function waitForOpenWriters(query: Query, last = 0n): Promise<View> {
  const view = await readView(query);
  refuseUnknown(last, view);
  if (view.newest > last) await untilEnded(view.writers, async () => (await readView(query)).writers);
  return view;
}

/** @throws Failure when a change is newer than the newest */
export function refuseUnknown(id: bigint, { newest }: View): void {
  if (newest < id) throw new Failure(`there is no change ${id}, the newest is ${newest}: was the database restored?`);
}

/** How long a transaction may have begun before other sessions see it. */
const UNSEEN_MS = 1_000;

/**
 * The transactions that began before an instant, and those whose start we may not see, because they are of another role
 * or prepared (`hidden`). PostgreSQL's own processes, which write no history, have no role.
 */
const openBefore = (instant: string) => `
  SELECT ceil(greatest(0, extract(epoch FROM ${instant} - clock_timestamp()) * 1000 + ${UNSEEN_MS}))::int AS "waitMs",
         coalesce(array_agg(virtualtransaction) FILTER (WHERE xact_start < ${instant}), '{}') AS early,
         coalesce(array_agg(virtualtransaction) FILTER (WHERE xact_start IS NULL), '{}') AS hidden
    FROM (SELECT virtualtransaction, xact_start FROM pg_locks JOIN pg_stat_activity USING (pid)
           WHERE locktype = 'virtualxid' AND mode = 'ExclusiveLock' AND datname = current_database()
             AND usesysid IS NOT NULL AND pid <> pg_backend_pid()
          UNION ALL SELECT virtualtransaction, NULL ${WRITERS} AND pid IS NULL -- prepared
       ) AS open
  HAVING NOT pg_is_in_recovery()`;

/**
 * Waits until nobody can commit a change any more whose `changedAt` is before an instant. `changedAt` is the start of
 * the transaction, or of an import's statement. So it waits for each transaction that was open then, even if that has
 * written nothing.
 *
 * @param instant SQL; not in the future
 */
export async function waitForTransactionsBefore(query: Query, instant: string): Promise<void> {
  const view = () => onPrimary<{ waitMs: number; early: Writers; hidden: Writers }>(query, openBefore(instant));
  await pause((await view()).waitMs);
  let { early, hidden } = await view();
  while (early.length + hidden.length > 0) {
    await untilEnded([...early, ...hidden], async () => {
      const present = await view();
      return [...present.early, ...present.hidden];
    });
    ({ early } = await view()); // COMMIT AND CHAIN begins a transaction when the statement came
    hidden = [];
  }
}

export async function readView(query: Query): Promise<View & { readonly writers: Writers }> {
  const { newest, pruned, writers } = await onPrimary<{ newest: string; pruned: string; writers: Writers }>(
    query,
    VIEW,
  );
  return { newest: BigInt(newest), pruned: BigInt(pruned), writers };
}

async function onPrimary<Row>(query: Query, sql: string): Promise<Row> {
  const [row] = (await query(sql)) as Row[];
  if (!row) throw Object.assign(new Error('standby'), { code: SQLSTATE.readOnly });
  return row;
}

/** After a restart of PostgreSQL, prepared transactions have new names: if a name is gone, each may be the one. */
async function untilEnded(first: Writers, writers: () => Promise<Writers>): Promise<void> {
  const wasPrepared = (writer: string) => writer.startsWith('-1/');
  let open = first;
  for (let pauseMs = 2; open.length > 0; pauseMs = Math.min(2 * pauseMs, 200)) {
    await pause(pauseMs);
    const present = await writers();
    const isRenamed = open.some((writer) => !wasPrepared(writer) && !present.includes(writer));
    open = present.filter((writer) => open.includes(writer) || (isRenamed && wasPrepared(writer)));
  }
}
