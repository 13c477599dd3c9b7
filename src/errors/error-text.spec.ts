import { describe, expect, it } from 'vitest';
import { ApiError } from './api-error.js';
import { describeError, describeFailure, Failure, NOT_AS_ASKED } from './error-text.js';

const failure = (message: string, code?: string, cause?: unknown) =>
  Object.assign(new Error(message, { cause }), code === undefined ? {} : { code });

const ofPrisma = (cause: object) =>
  Object.assign(new Error('outer'), { code: 'P2010', meta: { driverAdapterError: failure('inner', '', cause) } });

const SILENT = 'the database did not answer in time; check DATABASE_URL and the database';
const LOST = 'the connection to the database was lost; check DATABASE_URL and the database';
const STANDBY = 'the database takes no writes: it is a standby, or default_transaction_read_only is on';
const IN_THE_WAY =
  'another transaction was in the way; nothing was written, try again; after a restore run "inventory migrate" first';

describe('describeFailure', () => {
  it.each<[string, unknown, string]>([
    ['its own words', new Failure('no key x\nand no y'), 'no key x\nand no y'],
    ['a lost connection', failure('Connection terminated unexpectedly'), LOST],
    ['a pool without a connection in time', failure('timeout exceeded when trying to connect'), SILENT],
    [
      'a client certificate that the server refuses',
      failure('tlsv1 alert unknown ca'),
      'no TLS with the database of DATABASE_URL: tlsv1 alert unknown ca; check its host, sslmode, sslrootcert, sslcert and sslkey',
    ],
    ['a connection that takes too long', failure('timeout expired'), SILENT],
    ['a socket that is silent for Prisma', ofPrisma({ kind: 'SocketTimeout' }), SILENT],
    [
      'a connection that the pool has cut',
      failure('Connection terminated due to connection timeout', '', failure('Connection terminated unexpectedly')),
      SILENT,
    ],
    ['a deadline', failure('deadline passed'), SILENT],
    ['a frozen database', failure('Query read timeout'), SILENT],
    [
      'a refused connection',
      failure('connect ECONNREFUSED 127.0.0.1:1', 'ECONNREFUSED'),
      'the database cannot be reached: connect ECONNREFUSED 127.0.0.1:1; check DATABASE_URL',
    ],
    [
      'a host with two addresses',
      failure('', 'ECONNREFUSED', new AggregateError([failure('connect ECONNREFUSED ::1:1', 'ECONNREFUSED')])),
      'the database cannot be reached: connect ECONNREFUSED ::1:1; check DATABASE_URL',
    ],
    [
      'an unknown host',
      failure('getaddrinfo ENOTFOUND db', 'ENOTFOUND'),
      'the database cannot be reached: getaddrinfo ENOTFOUND db; check DATABASE_URL',
    ],
    [
      'a name server that does not answer',
      failure('getaddrinfo EAI_AGAIN db', 'EAI_AGAIN'),
      'the database cannot be reached: getaddrinfo EAI_AGAIN db; check DATABASE_URL',
    ],
    [
      'an error of the program',
      failure('The "path" argument must be a string', 'ERR_INVALID_ARG_TYPE'),
      'The "path" argument must be a string (ERR_INVALID_ARG_TYPE)',
    ],
    ...['42P01', '42703', '42704', '42883'].map((code): [string, unknown, string] => [
      `what is missing (${code})`,
      failure('x', code),
      'the database has no inventory tables, or not the newest; run "inventory migrate" first',
    ]),
    [
      'a host that Prisma cannot reach',
      ofPrisma({ kind: 'DatabaseNotReachable' }),
      'the database cannot be reached: there is no such host, or nothing listens there; check DATABASE_URL',
    ],
    ['a connection that Prisma lost', ofPrisma({ kind: 'ConnectionClosed' }), LOST],
    [
      'the words of PostgreSQL to Prisma',
      ofPrisma({ kind: 'x', originalCode: '53100', originalMessage: 'full' }),
      'full (53100)',
    ],
    ['the reason that Prisma has', ofPrisma({ kind: 'x', reason: 'odd' }), 'odd (x)'],
    ['a kind without a reason', ofPrisma({ kind: 'x' }), 'inner (x)'],
    ['a standby', failure('cannot execute UPDATE', '25006'), STANDBY],
    [
      'a lock',
      failure('canceling statement due to lock timeout', '55P03'),
      'another transaction holds what this needs and did not let go in time; nothing was written, try again',
    ],
    ['a deadlock', failure('deadlock detected', '40P01'), IN_THE_WAY],
    ['a history id that is taken', failure('doppelter Schlüsselwert: »stock_change_pkey«', '23505'), IN_THE_WAY],
    [
      "a unique rule of the operator's own",
      failure('duplicate: "their_rule"', '23505'),
      'duplicate: "their_rule" (23505)',
    ],
    ['a row that a trigger changed', failure(`invalid input syntax: "${NOT_AS_ASKED} 1"`, '22P02'), NOT_AS_ASKED],
    [
      'a cancelled statement',
      failure('canceling statement', '57014'),
      'the database cut the statement off: it took too long, or somebody cancelled it',
    ],
    ['what another error wraps', failure('outer', 'P2010', failure('cannot execute UPDATE', '25006')), STANDBY],
    ['an unknown code', failure('disk full\nat character 5', '53100'), 'disk full (53100)'],
    ['an unknown error', failure('\nodd\nmore'), 'odd'],
    ['an error with a null for its cause', failure('odd', '53100', null), 'odd (53100)'],
    ['an error with a text for its cause', failure('odd', '53100', 'text'), 'odd (53100)'],
    ['a text that is no error, without the key in it', 'odd psk_a1', 'odd [key]'],
  ])('tells %s', (_name, error, words) => {
    expect(describeFailure(error)).toBe(words);
  });
});

describe('describeError', () => {
  it.each([
    ['psk_aZ1 and psk_Zb2', '[key] and [key]'],
    ['Authorization: bearer  secret-1, Bearer secret-2', 'Authorization: bearer  [key] Bearer [key]'],
    [
      'postgresql://me:secret-1@db/x, postgresql://:secret-2@db',
      'postgresql://me:[password]@db/x, postgresql://:[password]@db',
    ],
    ['a password with signs, postgresql://me:/secret:1@db', 'a password with signs, postgresql://me:[password]@db'],
    [`'BEARER secret-1' "bearer secret-2"`, `'BEARER [key]' "bearer [key]"`],
  ])('leaves no secret of %s in message or stack', (message, shown) => {
    const described = describeError(failure(message, '53100'));
    expect(described).toMatchObject({ type: 'Error', message: shown, code: '53100' });
    expect(described).toHaveProperty('stack', expect.stringContaining(`Error: ${shown}\n`));
    expect(JSON.stringify([described, describeError({ message })])).not.toMatch(/psk_|secret/);
  });

  it('tells what is no error in one line', () => {
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
