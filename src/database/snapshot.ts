/**
 * What the database had committed at a moment. Two with the same life and transactions see exactly the same rows. After a
 * crash the same transaction ids can come again, but in another life of the server.
 */
export interface Snapshot {
  /** `server_life()`; null on a standby, where the transactions do not change with every commit. */
  readonly life: string | null;
  /** `pg_current_snapshot()` as text. */
  readonly transactions: string;
}

/** The two columns of a {@link Snapshot}. A session asks for the life once, then a setting keeps it: none outlives a crash. */
export const SNAPSHOT = `
  CASE WHEN NOT pg_is_in_recovery() THEN
    nullif(coalesce(nullif(current_setting('inventory.life', true), ''),
                    set_config('inventory.life', present_server_life(), false)), '')
  END,
  pg_current_snapshot()`;
