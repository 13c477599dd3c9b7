import type { ConnectionLost, Answer } from '../../test/support/http-client.ts';

/** A service process, or a proxy before one. */
export interface Target {
  readonly name: string;
  readonly port: number;
  /** When the last kill -9 had ended it, in monotonic milliseconds. Earlier connections may break. */
  readonly killedAt: number;
}

export interface Update {
  readonly kind: 'update';
  readonly petId: number;
  /** Different from every other quantity of the run. */
  readonly quantity: number;
  /** The quantity in `If-Match`, if the update has one. */
  readonly expected?: number;
  /** The `Idempotency-Key`, if the update has one. */
  readonly key?: string;
}

export interface List {
  readonly kind: 'list';
  /** The list that the client has, named in `If-None-Match`. */
  readonly known?: KnownList;
}

export interface KnownList {
  readonly etag: string;
  readonly body: string;
}

/** One request and its outcome. Times are monotonic milliseconds. */
export interface Exchange {
  readonly target: Target;
  /** Each client waits for an outcome before its next request. */
  readonly client: number;
  readonly operation: Update | List;
  readonly start: number;
  readonly end: number;
  /**
   * Set when the client repeats the request until it is answered: the start of the first attempt, and whether another
   * one follows.
   */
  readonly repeated?: { readonly since: number; readonly again: boolean };
  readonly connectedAt: number;
  readonly outcome: Answer | ConnectionLost;
}
