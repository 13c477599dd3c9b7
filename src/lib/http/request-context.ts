import { randomUUID } from 'node:crypto';
import type { IncomingMessage, OutgoingHttpHeader } from 'node:http';
import type { Request } from 'express';
import type { Snapshot } from '../../keys/snapshot.ts';
import type { ApiError } from './api-error.ts';
import { isSafeName } from '../../keys/safe-text.ts';

/** Why a request was not let in, for the log alone: the client must not learn it. */
export const AUTH_FAILURES = ['no_key', 'malformed_header', 'unknown_key', 'expired_key', 'revoked_key'] as const;
export type AuthFailure = (typeof AUTH_FAILURES)[number];

/** What the server noticed before a handler saw the request. */
interface Received {
  /** With `Upgrade`: where the request ends, in bytes of its connection. Node.js loses what the same read brings behind it. */
  endsAt?: number;
  /** Why the body cannot be read: bad framing, or a time-out. */
  bodyFault?: ApiError;
  awaitsContinue?: boolean;
}

/** What the guard found. */
export interface Access {
  /** Until when the request may wait for the database, on the clock of `performance.now()`. */
  readonly deadline: number;
  readonly keyId: string | undefined;
  readonly failure: AuthFailure | undefined;
  /** What had been committed when the key was checked. */
  readonly snapshot: Snapshot;
  /** Its connection then keeps its place (`server/open-connections.ts`). */
  isLetIn: boolean;
}

/** What was sent, for the log. */
interface Sent {
  /** `Content-Length` of the response. */
  readonly length: OutgoingHttpHeader | undefined;
  readonly failure: ApiError | undefined;
}

/** A request with what the service knows of it. Each part has one writer. */
export interface ApiRequest extends Request {
  id: string;
  /** When its turn came, on the clock of `performance.now()`. */
  startedAt: number;
  /** By `server/`. */
  received?: Received;
  /** By the guard, unless the handler is public or the key could not be checked. */
  access?: Access;
  /** By `json-body.ts`: how long the body took to arrive. This time does not count as waiting for the database. */
  bodyMs?: number;
  /** By `responses.ts`. */
  sent?: Sent;
}

/** One that the guard has let in. */
export interface GuardedRequest extends ApiRequest {
  access: Access;
}

/** Gives the request its id and its start, the first time it is called. */
export function inContext(incoming: IncomingMessage): ApiRequest {
  const request = incoming as ApiRequest;
  if ((request.startedAt as number | undefined) === undefined) {
    const given = request.headers['x-request-id'];
    request.id = typeof given === 'string' && isSafeName(given) ? given : randomUUID();
    request.startedAt = performance.now();
  }
  return request;
}
