import { describe, expect, it } from 'vitest';
import { ApiError } from '../errors/api-error.ts';
import { describeError } from './describe-error.ts';

const failure = (message: string, code?: string, cause?: unknown) =>
  Object.assign(new Error(message, { cause }), code === undefined ? {} : { code });

describe('describeError', () => {
  it.each([
    ['psk_aZ1 and psk_Zb2', '[key] and [key]'],
    ['Authorization: bearer  secret-1, Bearer secret-2', 'Authorization: bearer  [key] Bearer [key]'],
    [
      'postgresql://me:secret-1@db/x, postgresql://:secret-2@db',
      'postgresql://me:[password]@db/x, postgresql://:[password]@db',
    ],
    ['https://secret@collector, file:///a/@b', 'https://[user]@collector, file:///a/@b'],
    ['a password with signs, postgresql://me:/secret:1@db', 'a password with signs, postgresql://me:[password]@db'],
    [`'BEARER secret-1' "bearer secret-2"`, `'BEARER [key]' "bearer [key]"`],
  ])('leaves no secret of %s in message or stack', (message, shown) => {
    const described = describeError(failure(message, '53100'));
    expect(described).toMatchObject({ type: 'Error', message: shown, code: '53100' });
    expect(described).toHaveProperty('stack', expect.stringContaining(`Error: ${shown}\n`));
    expect(JSON.stringify([described, describeError({ message })])).not.toMatch(/psk_|secret/);
  });

  it('shows what is no error in one line', () => {
    const words = 'x'.repeat(150);
    expect(describeError({ kind: 'x', words })).toEqual({
      type: 'object',
      message: `{ kind: 'x', words: '${words}' }`,
    });
  });

  it('has no code but a text, and no stack where there is none', () => {
    const described = describeError(Object.assign(new Error('x'), { code: 20, stack: undefined }));
    expect(described).toEqual({ type: 'Error', message: 'x' });
  });

  it('shows the first of several errors', () => {
    expect(describeError(new AggregateError([failure('first'), failure('second')]))).toMatchObject({
      type: 'AggregateError',
      cause: { message: 'first' },
    });
    const refusal = describeError(new ApiError('not_found'));
    expect(refusal).toMatchObject({ type: 'ApiError' });
    expect(refusal).not.toHaveProperty('stack');
  });

  it('shows five causes at most', () => {
    const endless = failure('again');
    endless.cause = endless;
    expect(JSON.stringify(describeError(endless)).match(/"message":"again"/g)).toHaveLength(1 + 5);
  });
});
