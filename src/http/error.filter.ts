import { type ArgumentsHost, Catch, type ExceptionFilter, HttpException } from '@nestjs/common';
import type { Response } from 'express';
import type { ApiRequest } from './api-request.js';
import { ApiError } from '../errors/api-error.js';
import { sendError } from './responses.js';
import { ERRORS, type ErrorCode } from '../errors/error-code.js';

/** Whatever is thrown while a request is handled leaves through here, as an Error. */
@Catch()
export class ErrorFilter implements ExceptionFilter {
  catch(thrown: unknown, host: ArgumentsHost): void {
    const http = host.switchToHttp();
    sendError(http.getRequest<ApiRequest>(), http.getResponse<Response>(), asApiError(thrown));
  }
}

/** An ApiError is meant for the client. Of anything else, a framework's refusal or a fault of ours, only the status is told. */
export function asApiError(thrown: unknown): ApiError {
  if (thrown instanceof ApiError) return thrown;
  const status = thrown instanceof HttpException ? thrown.getStatus() : statusOf(thrown);
  if (status < 400 || status >= 500) {
    return new ApiError('internal_error', undefined, {}, thrown);
  }
  const code = (Object.keys(ERRORS) as ErrorCode[]).find((each) => ERRORS[each].status === status) ?? 'bad_request';
  return new ApiError(code, 'The request was refused.', {}, thrown);
}

/** Express and its middleware mark client errors by a `status`. */
function statusOf(thrown: unknown): number {
  const status: unknown =
    typeof thrown === 'object' && thrown !== null && 'status' in thrown ? thrown.status : undefined;
  return typeof status === 'number' ? status : ERRORS.internal_error.status;
}
