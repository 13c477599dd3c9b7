import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DriverAdapterError } from '@prisma/driver-adapter-utils';
import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { postgresBinaries } from '../../dev/postgres-binaries.js';
import { NOT_AS_ASKED } from '../errors/error-text.js';
import { Prisma } from '../generated/prisma/client.js';
import {
  NotApplied,
  OutcomeUnknown,
  RefusedValue,
  TooManyWaiting,
  UnconfirmedCommit,
  mayReadAgain,
  mayWriteAgain,
  outcomeOf,
  outcomeOfSqlstate,
  readFailure,
  writeFailure,
} from './database-failure.js';
import { DeadlinePassed } from './deadline.js';

const databaseError = (code: string, message = 'secret') =>
  Object.assign(new pg.DatabaseError(message, message.length, 'error'), { code });
const socket = (code: string) => Object.assign(new Error('secret'), { code, syscall: 'connect', errno: -1 });
const adapter = (originalCode: string, originalMessage = 'secret') =>
  new DriverAdapterError({ kind: 'postgres', originalCode, originalMessage } as never);
const prisma = (...told: Parameters<typeof adapter>) =>
  new Prisma.PrismaClientKnownRequestError('secret', {
    code: 'P2010',
    clientVersion: '7',
    meta: { driverAdapterError: adapter(...told) },
  });

const validationError = new Prisma.PrismaClientValidationError('', { clientVersion: '7' });

describe('outcomeOf', () => {
  it.each<[string, unknown, string]>([
    ['too many waiting', new TooManyWaiting(), 'not_applied'],
    ['a session that did not begin', new NotApplied('', { cause: socket('EPIPE') }), 'not_applied'],
    ['a deadline before the statement was sent', new DeadlinePassed(false), 'not_applied'],
    ['a deadline after the statement was sent', new DeadlinePassed(true), 'unknown'],
    ['a commit that no standby confirmed', new UnconfirmedCommit(), 'unknown'],
    ['a SQLSTATE from the driver', databaseError('25006'), 'not_applied'],
    ['a SQLSTATE from the adapter', adapter('25006'), 'not_applied'],
    ['a SQLSTATE from Prisma', prisma('25006'), 'not_applied'],
    ['a query that Prisma refuses', validationError, 'program_fault'],
    ['connection reset', new DriverAdapterError({ kind: 'ConnectionClosed' }), 'unknown'],
    ['no answer in time', new Error('Query read timeout'), 'unknown'],
    ...[TypeError, RangeError, ReferenceError, SyntaxError].map((kind): [string, unknown, string] => [
      `a bug, ${kind.name}`,
      new kind(),
      'program_fault',
    ]),
    ['undefined', undefined, 'program_fault'],
    // On an open session, an error of the socket or of TLS says nothing about the statement's effect.
    ...['EPIPE', 'ECONNREFUSED', 'ERR_SSL_DECRYPTION_FAILED_OR_BAD_RECORD_MAC', 'EMFILE'].map(
      (code): [string, unknown, string] => [code, socket(code), 'unknown'],
    ),
  ])('reports the outcome of %s', (_name, error, outcome) => {
    expect(outcomeOf(error)).toBe(outcome);
  });
});

describe('the table of SQLSTATEs', () => {
  const list = readFileSync(join(postgresBinaries('18'), 'share', 'postgresql', 'errcodes.txt'), 'utf8');
  const codes = [...new Set([...list.matchAll(/^([0-9A-Z]{5}) /gm)].map(([, code = '']) => code))];
  const having = (outcome: string) => codes.filter((code) => outcomeOfSqlstate(code) === outcome).sort();

  it('has an outcome for every SQLSTATE of PostgreSQL 18', () => {
    expect(codes.length).toBeGreaterThan(250);
    expect(having('not_applied').join(' ')).toBe(
      '08001 08004 0A000 25006 25P03 25P04 26000 28000 28P01 3D000 3F000 40000 40001 40002 40P01 42883 42P01 ' +
        '42P05 53000 53100 53200 53300 53400 55000 55006 55P02 55P03 55P04 57014 57P03 57P04 57P05',
    );
    const unknown = having('unknown').filter((code) => !code.startsWith('HV'));
    expect(unknown.join(' ')).toBe(
      '08000 08003 08006 08007 08P01 40003 57000 57P01 57P02 58000 58030 58P01 58P02 58P03 F0000 F0001 XX000 XX001 XX002',
    );
    const faultyClasses = new Set(having('program_fault').map((code) => code.slice(0, 2)));
    expect([...faultyClasses].join(' ')).toBe(
      '00 01 02 03 09 0B 0F 0L 0P 0Z 10 20 21 22 23 24 25 27 2B 2D 2F 34 38 39 3B 42 44 54 P0',
    );
  });

  it('reports an unknown outcome for an SQLSTATE that it does not list', () => {
    expect(outcomeOfSqlstate('ZZ000')).toBe('unknown');
  });
});

it.each([
  ['a lost connection', databaseError('57P01'), true],
  ['a lock', databaseError('55P03'), true],
  ['a bug', new TypeError(), false],
  ['too many waiting', new TooManyWaiting(), false],
])('a read that failed by %s may be repeated: %#', (_name, failure, may) => {
  expect(mayReadAgain(failure)).toBe(may);
});

describe('a failure', () => {
  it.each([
    ['of a read, even where a write would be in doubt,', readFailure, '57P01', NotApplied],
    ['of a write in doubt', writeFailure, '57P01', OutcomeUnknown],
    ['of a write that surely failed', writeFailure, '53100', NotApplied],
    ['of a write that a data exception refuses', writeFailure, '22012', RefusedValue],
    ['of a write that a constraint refuses', writeFailure, '23514', RefusedValue],
    ['of a write that a trigger changes besides', writeFailure, '27000', RefusedValue],
    ['of a write that a function refuses', writeFailure, 'P0001', RefusedValue],
    ["of a write that a view's check option refuses", writeFailure, '44000', RefusedValue],
  ])('%s becomes an outcome in words, with its cause', (_, failure, sqlstate, outcome) => {
    const cause = databaseError(sqlstate);
    expect(failure(cause)).toEqual(new outcome(`secret (${sqlstate})`, { cause }));
  });

  it('that the deadline ended has the message of the failure before it', () => {
    const ended = Object.assign(new DeadlinePassed(false), { cause: new NotApplied('another session holds the row') });
    expect(readFailure(ended)).toMatchObject({ message: 'another session holds the row', cause: ended });
  });

  it.each([databaseError, adapter, prisma])('of a write by a unique rule depends on whose rule it is (%#)', (error) => {
    const conflict = (index: string) =>
      writeFailure(error('23505', `duplicate key value violates unique constraint "${index}"`));
    for (const own of ['stock_change_pkey', 'stock_change_idempotency_key', 'api_key_key_sha256_key'])
      expect(conflict(own)).toBeInstanceOf(NotApplied);
    for (const other of ['their_rule', 'my_stock_change_pkey', 'stock_change_pkey1', 'inventory_item_pkey'])
      expect(conflict(other)).toBeInstanceOf(RefusedValue);
    expect(conflict('their_rule')).toHaveProperty('message', expect.stringMatching(/"their_rule" \(23505\)$/));
    expect(conflict('inventory_item_pkey')).toHaveProperty('message', NOT_AS_ASKED);
  });

  it('by a rule or by a crowd is not worth another attempt, and one by a lock or an old plan is', () => {
    const rule = databaseError('0A000', 'cannot perform UPDATE RETURNING on relation "inventory_item"');
    const plan = databaseError('0A000', 'cached plan must not change result type');
    const failures = [rule, new TooManyWaiting(), databaseError('23514'), databaseError('55P03'), plan];
    expect(failures.map(mayWriteAgain)).toEqual([false, false, false, true, true]);
  });

  it('that no standby confirmed says so', () => {
    const message = 'the commit is not confirmed by the synchronous standby';
    expect(writeFailure(new UnconfirmedCommit())).toMatchObject({ message });
  });

  it('is returned unchanged when it is complete or a bug', () => {
    const crowd = new TooManyWaiting();
    const wrongStatement = databaseError('42P02');
    for (const failure of [crowd, new TypeError(), wrongStatement])
      expect([readFailure(failure), writeFailure(failure)]).toEqual([failure, failure]);
    expect(crowd.message).toBe('too many calls wait for the database');
  });
});
