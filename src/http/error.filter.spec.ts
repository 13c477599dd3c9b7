import { HttpException, NotFoundException, PayloadTooLargeException } from '@nestjs/common';
import { describe, expect, it } from 'vitest';
import { NotApplied, OutcomeUnknown, RefusedValue, TooManyWaiting } from '../database/database-failure.js';
import { ApiError } from '../errors/api-error.js';
import { ERRORS, type ErrorCode } from '../errors/error-code.js';
import { asApiError } from './error.filter.js';

describe('an ApiError', () => {
  it('is returned unchanged', () => {
    const error = new ApiError('not_found');
    expect(asApiError(error)).toBe(error);
  });

  it('has a body with the status of its code, and the message of its code or its own', () => {
    for (const [code, { status, message }] of Object.entries(ERRORS)) {
      expect(JSON.parse(new ApiError(code as ErrorCode).body())).toEqual({ code, message, status });
      expect(JSON.parse(new ApiError(code as ErrorCode, 'm').body())).toEqual({ code, message: 'm', status });
    }
  });
});

describe("a database's failure", () => {
  it.each([
    [new NotApplied('secret'), 'service_unavailable', ERRORS.service_unavailable.message],
    [
      new TooManyWaiting(),
      'service_unavailable',
      'The service is handling as many requests as it can; nothing was written.',
    ],
    [new OutcomeUnknown('secret'), 'outcome_unknown', ERRORS.outcome_unknown.message],
  ])('%s becomes an ApiError with a code and Retry-After; its text stays in the cause', (cause, code, message) => {
    expect(asApiError(cause)).toMatchObject({ code, message, headers: { 'Retry-After': '1' }, cause });
  });

  it('that refuses a value is not to be tried again', () => {
    const cause = new RefusedValue('secret');
    const error = asApiError(cause);
    expect(error).toMatchObject({ code: 'validation_failed', cause });
    expect(error.headers).toEqual({});
  });
});

describe('any other thrown value', () => {
  it.each<[unknown, string]>([
    [new NotFoundException('x'), 'not_found'],
    [new PayloadTooLargeException('x'), 'payload_too_large'],
    [Object.assign(new Error('x'), { status: 400 }), 'bad_request'],
    [new HttpException('x', 418), 'bad_request'],
    [new HttpException('x', 503), 'internal_error'],
    [Object.assign(new Error('x'), { status: 503 }), 'internal_error'],
    [new Error('x'), 'internal_error'],
    ['x', 'internal_error'],
    [undefined, 'internal_error'],
  ])('%s becomes an ApiError; its text stays in the cause', (thrown, code) => {
    const error = asApiError(thrown);
    expect({ code: error.code, cause: error.cause }).toEqual({ code, cause: thrown });
    expect(error.message).toMatch(/^The (request was refused|service failed; its log says why)\.$/);
  });
});
