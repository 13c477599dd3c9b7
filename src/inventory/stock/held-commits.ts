import { boundsOfRequest } from '../../lib/postgres/deadline.ts';
import type { Settings } from '../../settings.ts';
import type { InventoryCounts } from './inventory-counts.ts';

/** From so many on, no update is sent; the one under way may become the fifth. Each pins a connection of PostgreSQL. */
export const STOP_AT_HELD_COMMITS = 4;

/** Commits that wait for a standby, long after the service has given them up: PostgreSQL keeps their sessions without a client. */
const HELD = `
  SELECT count(*)::int AS held FROM pg_stat_activity
   WHERE application_name IN ('inventory updates', 'inventory pool') AND usename = session_user AND datname = current_database()
     AND wait_event = 'SyncRep' AND query_start < clock_timestamp() - $1 * interval '1 millisecond'`;

/**
 * Bounds the commits that a lost synchronous standby holds. It counts those of all processes of this store and role, but several
 * processes can send commits at the same time.
 */
export class HeldCommits {
  readonly #givenUpAfterMs: number;

  constructor(
    settings: Settings,
    private readonly counts: InventoryCounts,
  ) {
    this.#givenUpAfterMs = boundsOfRequest(settings.REQUEST_DEADLINE_MS).query_timeout;
  }

  /**
   * How many more commits may come to be held.
   *
   * @param query runs a statement in any session of the service
   * @throws Error when there may be no more
   */
  async placesLeft(
    query: (sql: string, givenUpAfterMs: number) => Promise<readonly { held: number }[]>,
  ): Promise<number> {
    const [{ held } = { held: 0 }] = await query(HELD, this.#givenUpAfterMs);
    this.counts.heldCommits = held;
    if (held >= STOP_AT_HELD_COMMITS)
      throw new Error('sessions that were given up still wait for the synchronous standby');
    return STOP_AT_HELD_COMMITS - held;
  }
}
