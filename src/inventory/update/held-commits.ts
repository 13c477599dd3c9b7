import type { Query } from '../../lib/postgres/index.ts';
import type { InventoryCounts } from '../inventory-counts.ts';

/** With this many, no update is sent; one that is under way may become the fifth. Each pins a connection of PostgreSQL. */
export const STOP_AT_HELD_COMMITS = 4;

/**
 * Commits that wait for a standby, long after the service has given them up: PostgreSQL keeps their sessions without a
 * client. $1: after how many milliseconds a statement is given up.
 */
const HELD = `
  SELECT count(*)::int AS held FROM pg_stat_activity
   WHERE application_name IN ('inventory updates', 'inventory pool')
     AND usename = session_user AND datname = current_database()
     AND wait_event = 'SyncRep' AND query_start < clock_timestamp() - $1 * interval '1 millisecond'`;

/**
 * Bounds the commits that a lost synchronous standby holds. It counts those of all processes of this store and role,
 * but several processes can send commits at the same time.
 *
 * @param query runs a statement in any session of the service
 * @returns how many more commits may wait for the standby
 * @throws Error if no more may
 */
export async function requireFreeCommits(
  query: Query,
  counts: InventoryCounts,
  givenUpAfterMs: number,
): Promise<number> {
  const [{ held }] = (await query(HELD, givenUpAfterMs)) as [{ held: number }];
  counts.heldCommits = held;
  if (held >= STOP_AT_HELD_COMMITS)
    throw new Error('sessions that were given up still wait for the synchronous standby');
  return STOP_AT_HELD_COMMITS - held;
}
