import { randomUUID } from 'node:crypto';
import type { NextFunction, RequestHandler, Response } from 'express';
import { KEY_PREFIX } from '../auth/api-key.format.js';
import type { Environment } from '../environment.js';
import { answerError } from '../errors/error.answer.js';
import type { ApiRequest } from './api-request.js';
import type { Drain } from './drain.js';
import { judgeHead } from './request-head.js';

/** Of the caller's `X-Request-Id`s, those that are taken over. */
export const REQUEST_ID = /^[A-Za-z0-9_-]{1,64}$/;

/** What happens to every request before it is routed: it gets an id and a deadline, and its head is judged. */
export function frontDoor(environment: Environment, drain: Drain): RequestHandler {
  return (incoming, response: Response, next: NextFunction) => {
    const request = incoming as ApiRequest;
    request.res = response;
    const given = request.headers['x-request-id'];
    request.id = isRequestId(given) ? given : randomUUID();
    request.arrivedAt = performance.now();
    request.deadline = request.arrivedAt + environment.REQUEST_DEADLINE_MS;
    if (drain.isDraining) response.shouldKeepAlive = false;

    const fault = judgeHead(request);
    if (fault) {
      answerError(request, response, fault);
      return;
    }
    next();
  };
}

/** One that holds a key is not taken over: ids go into the log and the history. */
function isRequestId(given: string | string[] | undefined): given is string {
  return typeof given === 'string' && REQUEST_ID.test(given) && !given.includes(KEY_PREFIX);
}
