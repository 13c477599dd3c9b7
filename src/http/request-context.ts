import { randomUUID } from 'node:crypto';
import type { IncomingMessage, OutgoingHttpHeader } from 'node:http';
import type { Request } from 'express';
import type { Snapshot } from '../database/snapshot.js';
import type { ApiError } from '../errors/api-error.js';
import { holdsKey } from '../errors/secrets.js';

/** Why a request was not let in, for the log alone: the client must not learn it. */
export const AUTH_FAILURES = ['no_key', 'malformed_header', 'unknown_key', 'expired_key', 'revoked_key'] as const;
export type AuthFailure = (typeof AUTH_FAILURES)[number];

/** A request with what the service knows of it. */
export interface ApiRequest extends Request {
  id: string;
  /** When its turn came, on the clock of `performance.now()`, like {@link deadline}. */
  arrivedAt: number;
  /** With `Upgrade`: where the request ends, in bytes of its connection. Node.js loses what the same read brings behind it. */
  endsAt: number | undefined;
  /** Until when it may wait for the database. The time that its body takes to arrive does not count. */
  deadline: number;
  keyId: string | undefined;
  /** The guard found its key good and has let it in. */
  isLetIn: boolean | undefined;
  /** What had been committed when the guard let the request in. */
  snapshot: Snapshot;
  /** Why the body cannot be read: bad framing, or a time-out. */
  bodyFault: ApiError | undefined;
  awaitsContinue: boolean | undefined;
  authFailure: AuthFailure | undefined;
  /** `Content-Length` of the response, for the log. */
  responseLength: OutgoingHttpHeader | undefined;
  failure: ApiError | undefined;
}

export const REQUEST_ID = /^[A-Za-z0-9_-]{1,64}$/;

/** Gives the request its id and its time of arrival, the first time it is called. */
export function inContext(incoming: IncomingMessage): ApiRequest {
  const request = incoming as ApiRequest;
  if ((request.arrivedAt as number | undefined) === undefined) {
    const given = request.headers['x-request-id'];
    // Ids go into the log and the history, so an id that holds a key is replaced.
    const isTaken = typeof given === 'string' && REQUEST_ID.test(given) && !holdsKey(given);
    request.id = isTaken ? given : randomUUID();
    request.arrivedAt = performance.now();
  }
  return request;
}
