import { randomUUID } from 'node:crypto';
import type { IncomingMessage, OutgoingHttpHeader } from 'node:http';
import type { Request } from 'express';
import type { Snapshot } from '../database/snapshot.js';
import { ApiError } from '../errors/api-error.js';

/** Why a request was not let in. For the log alone: the caller learns no more than whether it has sent a key. */
export const AUTH_FAILURES = ['no_key', 'malformed_header', 'unknown_key', 'expired_key', 'revoked_key'] as const;
export type AuthFailure = (typeof AUTH_FAILURES)[number];

/** What every API key begins with. */
export const KEY_PREFIX = 'psk_';

const KEY = new RegExp(`${KEY_PREFIX}[0-9A-Za-z]{32}`);

/** Whether most of an API key is in a text, which is then never written down. */
export function holdsKey(text: string): boolean {
  return KEY.test(text);
}

/** A request with its context: what the service knows of it. */
export interface ApiRequest extends Request {
  /** The caller's `X-Request-Id` where it is well formed, otherwise a new one. */
  id: string;
  /** When its turn came on its connection, on the clock of `performance.now()`, like {@link deadline}. */
  arrivedAt: number;
  /** Until when the request may wait for the database; set by the guard, and put off by the time that its body takes to come. */
  deadline: number;
  /** Public id of the presented key, where the database knows it. */
  keyId: string | undefined;
  /** What had been committed when the request was let in; set by the guard. */
  snapshot: Snapshot;
  /** What is wrong with the framing or the time of the body; an `error` event tells whoever reads it. */
  bodyFault: ApiError | undefined;
  /** Whether the client waits for `100 Continue` before it sends the body. */
  awaitsContinue: boolean | undefined;
  /** Why the request was not let in. */
  authFailure: AuthFailure | undefined;
  /** `Content-Length` of the response, for the log. */
  responseLength: OutgoingHttpHeader | undefined;
  /** What the request failed with, for the log. */
  failure: unknown;
}

/** Of the caller's `X-Request-Id`s, those that are taken over. */
export const REQUEST_ID = /^[A-Za-z0-9_-]{1,64}$/;

/** The request with its context. Whoever asks first makes it, and needs nothing but the request. */
export function inContext(incoming: IncomingMessage): ApiRequest {
  const request = incoming as ApiRequest;
  if ((request.arrivedAt as number | undefined) === undefined) {
    const given = request.headers['x-request-id'];
    request.id = isRequestId(given) ? given : randomUUID();
    request.arrivedAt = performance.now();
  }
  return request;
}

/** One that holds a key is not taken over: ids go into the log and the history. */
function isRequestId(given: string | string[] | undefined): given is string {
  return typeof given === 'string' && REQUEST_ID.test(given) && !holdsKey(given);
}

/** All values of a header as they were sent; of most headers `headers` has the first one or all joined. */
export function headerValues({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>, name: string): string[] {
  const values: string[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const present = rawHeaders[at] ?? '';
    if (present.length === name.length && present.toLowerCase() === name) values.push(rawHeaders[at + 1] ?? '');
  }
  return values;
}
