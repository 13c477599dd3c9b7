import { randomUUID } from 'node:crypto';
import type { IncomingMessage, OutgoingHttpHeader } from 'node:http';
import type { Request } from 'express';
import type { HttpError } from './http-error.ts';

/** What the server noticed before a handler saw the request. */
interface Received {
  /**
   * With `Upgrade`: where the request ends, in bytes of its connection. Node.js loses what the same read brings behind
   * it.
   */
  endsAt?: number;
  /** Why the body cannot be read: bad framing, or a time-out. */
  bodyFault?: HttpError;
  awaitsContinue?: boolean;
}

/** What a guard found. A service adds what its handlers need. */
export interface Access {
  /** Its connection then keeps its place (`open-connections.ts`). */
  isAuthorized: boolean;
}

/** What was sent, for the log. */
interface Sent {
  /** `Content-Length` of the response. */
  readonly length: OutgoingHttpHeader | undefined;
  readonly failure: HttpError | undefined;
}

/** A request with what the service knows of it. Each part says who writes it. */
export interface ApiRequest<Found extends Access = Access> extends Request {
  id: string;
  /** When its turn came, on the clock of `performance.now()`. */
  startedAt: number;
  /** By `connection.ts` (`endsAt`) and `parser-errors.ts` (the rest). */
  received?: Received;
  /** By the guard, unless the handler is public or the guard failed. */
  access?: Found;
  /** By `json-body.ts`: how long the body took to arrive. This time does not count as waiting for the database. */
  bodyMs?: number;
  /** By `responses.ts`. */
  sent?: Sent;
}

/** The Express setting that says whether a client's `X-Request-Id` may be repeated: `(id: string) => boolean`. */
export const REQUEST_ID_RULE = 'request id rule';

/** Gives the request its id and its start, the first time it is called. */
export function contextOf<Found extends Access = Access>(incoming: IncomingMessage): ApiRequest<Found> {
  const request = incoming as ApiRequest<Found>;
  if ((request.startedAt as number | undefined) === undefined) {
    const given = request.headers['x-request-id'];
    request.id = typeof given === 'string' && mayRepeat(request, given) ? given : randomUUID();
    request.startedAt = performance.now();
  }
  return request;
}

function mayRepeat({ app }: ApiRequest, id: string): boolean {
  const rule = app.get(REQUEST_ID_RULE) as ((id: string) => boolean) | undefined;
  return rule?.(id) ?? false;
}
