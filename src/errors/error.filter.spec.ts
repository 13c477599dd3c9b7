import { describe, expect, it } from 'vitest';
import { NotApplied, OutcomeUnknown, RefusedValue, TooManyWaiting } from '../lib/postgres/index.ts';
import { ERRORS } from './error-code.ts';
import { asApiError } from './error.filter.ts';

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
