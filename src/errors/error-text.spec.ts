import { describe, expect, it } from 'vitest';
import { ApiError } from './api-error.js';
import { describeError, describeFailure, Failure } from './error-text.js';

const failure = (message: string, code?: string, cause?: unknown) =>
  Object.assign(new Error(message, { cause }), code === undefined ? {} : { code });

const ofPrisma = (cause: object) =>
  Object.assign(new Error('outer'), { code: 'P2010', meta: { driverAdapterError: failure('inner', '', cause) } });

describe('describeFailure', () => {
  it.each<[string, unknown, string | RegExp]>([
    ['its own words', new Failure('no key x\nand no y'), 'no key x\nand no y'],
    ['a lost connection', failure('Connection terminated unexpectedly'), /^the connection to the database was lost/],
    [
      'a pool without a connection in time',
      failure('timeout exceeded when trying to connect'),
      /did not answer in time/,
    ],
    [
      'a client certificate that the server refuses',
      failure('tlsv1 alert unknown ca'),
      /: tlsv1 alert unknown ca; check/,
    ],
    ['a connection that takes too long', failure('timeout expired'), /did not answer in time/],
    ['a socket that is silent for Prisma', ofPrisma({ kind: 'SocketTimeout' }), /did not answer in time/],
    [
      'a connection that the pool has cut',
      failure('Connection terminated due to connection timeout', '', failure('Connection terminated unexpectedly')),
      /did not answer in time/,
    ],
    ['a deadline', failure('deadline passed'), /did not answer in time/],
    ['a frozen database', failure('Query read timeout'), /did not answer in time/],
    [
      'a refused connection',
      failure('connect ECONNREFUSED 127.0.0.1:1', 'ECONNREFUSED'),
      /reached: connect ECONNREFUSED/,
    ],
    [
      'a host with two addresses',
      failure('', 'ECONNREFUSED', new AggregateError([failure('connect ECONNREFUSED ::1:1', 'ECONNREFUSED')])),
      /reached: connect ECONNREFUSED ::1/,
    ],
    ['an unknown host', failure('getaddrinfo ENOTFOUND db', 'ENOTFOUND'), /reached: getaddrinfo ENOTFOUND db; check/],
    ...['42P01', '42703', '42704', '42883'].map((code): [string, unknown, RegExp] => [
      `what is missing (${code})`,
      failure('x', code),
      /migrate/,
    ]),
    ['a host that Prisma cannot reach', ofPrisma({ kind: 'DatabaseNotReachable' }), /^the database cannot be reached/],
    [
      'a connection that Prisma lost',
      ofPrisma({ kind: 'ConnectionClosed' }),
      /^the connection to the database was lost/,
    ],
    [
      'the words of PostgreSQL to Prisma',
      ofPrisma({ kind: 'x', originalCode: '53100', originalMessage: 'full' }),
      'full (53100)',
    ],
    ['the reason that Prisma has', ofPrisma({ kind: 'x', reason: 'odd' }), 'odd (x)'],
    ['a standby', failure('cannot execute UPDATE', '25006'), /^the database takes no writes/],
    ['a lock', failure('canceling statement due to lock timeout', '55P03'), /nothing was written, try again$/],
    ['a deadlock', failure('deadlock detected', '40P01'), /^another transaction was in the way/],
    [
      'a history id that is taken',
      failure('duplicate key value', '23505'),
      /after a restore run "inventory migrate" first$/,
    ],
    ['a cancelled statement', failure('canceling statement', '57014'), /^the database cut the statement off/],
    [
      'what another error wraps',
      failure('outer', 'P2010', failure('cannot execute UPDATE', '25006')),
      /takes no writes/,
    ],
    ['an unknown code', failure('disk full\nat character 5', '53100'), 'disk full (53100)'],
    ['an unknown error', failure('\nodd\nmore'), 'odd'],
    ['a text that is no error, without the key in it', 'odd psk_a1', 'odd [key]'],
  ])('tells %s', (_name, error, words) => {
    expect(describeFailure(error)).toEqual(typeof words === 'string' ? words : expect.stringMatching(words));
  });
});

describe('describeError', () => {
  it.each([
    ['psk_a1 and psk_b2', '[key] and [key]'],
    ['Authorization: bearer secret-1, Bearer secret-2', 'Authorization: bearer [key] Bearer [key]'],
    [
      'postgresql://me:secret-1@db/x, postgresql://:secret-2@db',
      'postgresql://me:[password]@db/x, postgresql://:[password]@db',
    ],
  ])('leaves no secret of %s in message or stack', (message, shown) => {
    const described = describeError(failure(message, '53100'));
    expect(described).toMatchObject({ type: 'Error', message: shown, code: '53100' });
    expect(described).toHaveProperty('stack', expect.stringContaining(`Error: ${shown}\n`));
    expect(JSON.stringify([described, describeError({ message })])).not.toMatch(/psk_|secret/);
  });

  it('tells the first of several errors', () => {
    expect(describeError(new AggregateError([failure('first'), failure('second')]))).toMatchObject({
      type: 'AggregateError',
      cause: { message: 'first' },
    });
    const refusal = describeError(new ApiError('not_found'));
    expect(refusal).toMatchObject({ type: 'ApiError' });
    expect(refusal).not.toHaveProperty('stack');
  });

  it('tells five causes at most', () => {
    const endless = failure('again');
    endless.cause = endless;
    expect(JSON.stringify(describeError(endless)).match(/"message":"again"/g)).toHaveLength(1 + 5);
  });
});
