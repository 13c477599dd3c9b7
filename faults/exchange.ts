import type { ConnectionLost, Answer } from '../test/support/http-client.ts';

/** Where requests go: a service process, or something that stands before one. */
export interface Target {
  readonly name: string;
  readonly port: number;
  /** Monotonic milliseconds at which the last kill -9 had ended it; connections opened before that may break. */
  readonly killedAt: number;
}

export interface Update {
  readonly kind: 'update';
  readonly petId: number;
  /** Different from every other quantity of the run. */
  readonly quantity: number;
  /** The quantity that `If-Match` asked for, where it was sent. */
  readonly expected?: number;
}

export interface List {
  readonly kind: 'list';
  /** The list the client already had, sent along as `If-None-Match`. */
  readonly known?: KnownList;
}

export interface KnownList {
  readonly etag: string;
  readonly body: string;
}

/** One request and what came of it; times are monotonic milliseconds. */
export interface Exchange {
  readonly target: Target;
  readonly operation: Update | List;
  readonly start: number;
  readonly end: number;
  /** Of a request that is repeated until it is answered: when its first attempt was sent, and whether another follows. */
  readonly repeated?: { readonly since: number; readonly again: boolean };
  readonly connectedAt: number;
  readonly outcome: Answer | ConnectionLost;
}
