import type { Access as Authorization, ApiRequest } from '../lib/http/index.ts';
import type { CheckedKey } from './checked-key.ts';

/** What the guard found. */
export interface Access extends Authorization, CheckedKey {
  /** Until when the request may wait for the database, on the clock of `performance.now()`. */
  readonly deadline: number;
}

/** A request that the guard has let in. */
export interface GuardedRequest extends ApiRequest<Access> {
  access: Access;
}
