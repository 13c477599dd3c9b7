/** Why a request was not let in, for the log alone: the client must not learn it. */
export const AUTH_FAILURES = ['no_key', 'malformed_header', 'unknown_key', 'expired_key', 'revoked_key'] as const;
export type AuthFailure = (typeof AUTH_FAILURES)[number];

export interface CheckedKey {
  /** Why the key is refused; undefined for a live key. */
  readonly failure: AuthFailure | undefined;
  /** Its public id; undefined when the database does not know the key. */
  readonly keyId: string | undefined;
  readonly scopes: readonly string[];
  /** What had been committed when it was checked. */
  readonly snapshot: Snapshot;
}

/** Equal snapshots see the same rows. After a crash, transaction ids can repeat, but in another life of the server. */
export interface Snapshot {
  /** `present_server_life()`; null on a standby, where the transactions do not change with every commit. */
  readonly life: string | null;
  /** `pg_current_snapshot()` as text. */
  readonly transactions: string;
}
