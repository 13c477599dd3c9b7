/** Equal snapshots see the same rows. After a crash, transaction ids can repeat, but in another life of the server. */
export interface Snapshot {
  /** `present_server_life()`; null on a standby, where the transactions do not change with every commit. */
  readonly life: string | null;
  /** `pg_current_snapshot()` as text. */
  readonly transactions: string;
}

/** The columns of a {@link Snapshot}. A setting keeps the life for the session, which does not outlive a crash. */
export const SNAPSHOT = `CASE WHEN NOT pg_is_in_recovery() THEN
           nullif(coalesce(nullif(current_setting('inventory.life', true), ''),
                           set_config('inventory.life', present_server_life(), false)), '')
         END AS life,
         pg_current_snapshot() AS transactions`;
