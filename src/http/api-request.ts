import type { Request } from 'express';
import type { Moment } from '../auth/admission.js';
import type { Refusal } from '../auth/bearer.strategy.js';
import type { ApiError } from '../errors/api-error.js';

/** A request as the service knows it, from the front door on. */
export interface ApiRequest extends Request {
  /** The caller's `X-Request-Id` where it is well formed, otherwise a new one. */
  id: string;
  /** On the clock of `performance.now()`, like {@link deadline}. */
  arrivedAt: number;
  /** Until when the request may wait for the database. */
  deadline: number;
  /** Every `Authorization` header; Node.js itself keeps only the first. */
  authorizationHeaders: readonly string[];
  /** Public id of the presented key, where the database knows it. */
  keyId: string | undefined;
  /** What had been committed when the request was let in; set by the guard. */
  moment: Moment;
  /** What is wrong with the framing or the time of the body; an event of this name tells when it comes up. */
  bodyFault: ApiError | undefined;
  /** Whether the client waits for `100 Continue` before it sends the body. */
  awaitsContinue: boolean | undefined;
  /** Why the request was not let in. */
  refusal: Refusal | undefined;
  /** What the request failed with, for the log. */
  failure: unknown;
}
