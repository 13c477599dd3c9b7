import { type ArgumentsHost, Catch, type ExceptionFilter } from '@nestjs/common';
import type { Response } from 'express';
import { NotApplied, OutcomeUnknown, RefusedValue, TooManyWaiting } from '../lib/postgres/index.ts';
import { ApiError } from './api-error.ts';
import { HttpError, sendError } from '../lib/http/index.ts';
import { ERRORS, type ErrorCode } from './error-code.ts';

@Catch()
export class ErrorFilter implements ExceptionFilter {
  catch(thrown: unknown, host: ArgumentsHost): void {
    sendError(host.switchToHttp().getResponse<Response>(), asApiError(thrown));
  }
}

const CROWDED = 'The service is handling as many requests as it can; nothing was written.';
const REFUSED_VALUE = 'A rule of the database refuses this update: nothing was written.';

/** The client learns only the status of an error that is neither an HttpError nor an outcome of the database. */
export function asApiError(thrown: unknown): HttpError {
  if (thrown instanceof HttpError) return thrown;
  const message = thrown instanceof TooManyWaiting ? CROWDED : undefined;
  if (thrown instanceof NotApplied) return new ApiError('service_unavailable', message, {}, thrown);
  if (thrown instanceof RefusedValue) return new ApiError('validation_failed', REFUSED_VALUE, {}, thrown);
  if (thrown instanceof OutcomeUnknown) return new ApiError('outcome_unknown', undefined, {}, thrown);
  const { status } = Object(thrown) as { readonly status?: unknown };
  const isRefusal = typeof status === 'number' && status >= 400 && status < 500;
  if (!isRefusal) return new ApiError('internal_error', undefined, {}, thrown);
  const code = (Object.keys(ERRORS) as ErrorCode[]).find((each) => ERRORS[each].status === status) ?? 'bad_request';
  return new ApiError(code, 'The request was refused.', {}, thrown);
}
