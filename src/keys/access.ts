import type { Access as Authorization, ApiRequest } from '../lib/http/index.ts';
import type { Snapshot } from './snapshot.ts';

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

/** What the guard found. */
export interface Access extends Authorization, CheckedKey {
  /** Until when the request may wait for the database, on the clock of `performance.now()`. */
  readonly deadline: number;
}

/** A request that the guard has let in. */
export interface GuardedRequest extends ApiRequest<Access> {
  access: Access;
}
