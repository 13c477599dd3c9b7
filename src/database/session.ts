/**
 * What the database had committed at a moment. Two with the same session and transactions see exactly the same rows: a
 * session is its process and when that began, and dies with a crash, after which the same transaction ids could come again.
 * On a standby the transactions do not change with every commit; there the session is null, and no snapshot equals another.
 */
export interface Snapshot {
  readonly session: string | null;
  /** `pg_current_snapshot()` as text. */
  readonly transactions: string;
}

/** The two columns of a {@link Snapshot}. The session's token is asked for once; then a setting remembers it. */
export const SNAPSHOT = `
  CASE WHEN NOT pg_is_in_recovery() THEN
    nullif(coalesce(nullif(current_setting('inventory.session', true), ''),
                    set_config('inventory.session', present_session(), false)), '')
  END,
  pg_current_snapshot()`;
