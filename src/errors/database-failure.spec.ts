import { DriverAdapterError } from '@prisma/driver-adapter-utils';
import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { DeadlinePassed, TooManyWaiting } from '../database/round-trip.js';
import { UnconfirmedCommit } from '../database/session.js';
import { ApiError } from './api-error.js';
import { outcomeOf, readFailure, writeFailure } from './database-failure.js';

const sqlstate = (originalCode: string) =>
  new DriverAdapterError({
    kind: 'postgres',
    originalCode,
    code: originalCode,
    severity: 'ERROR',
    message: 'secret',
    detail: undefined,
    column: undefined,
    hint: undefined,
  });
const databaseError = (code: string) => Object.assign(new pg.DatabaseError('secret', 0, 'error'), { code });
const socket = (code: string) => Object.assign(new Error('secret'), { code, syscall: 'connect', errno: -1 });

describe('outcomeOf', () => {
  it.each([
    ['too many waiting', new TooManyWaiting(), 'not_applied'],
    ['a deadline before the statement was sent', new DeadlinePassed(false), 'not_applied'],
    ['a deadline after', new DeadlinePassed(true), 'unknown'],
    ['a commit that no standby confirmed', new UnconfirmedCommit(), 'unknown'],
    ['connection refused', new DriverAdapterError({ kind: 'DatabaseNotReachable' }), 'not_applied'],
    ['connection reset', new DriverAdapterError({ kind: 'ConnectionClosed' }), 'unknown'],
    ['socket timeout', new DriverAdapterError({ kind: 'SocketTimeout' }), 'unknown'],
    ['no route while connecting', socket('EHOSTUNREACH'), 'not_applied'],
    ['a certificate that has expired', socket('CERT_HAS_EXPIRED'), 'not_applied'],
    ['a server without TLS', new Error('The server does not support SSL connections'), 'not_applied'],
    ['read-only, from the driver itself', databaseError('25006'), 'not_applied'],
    ['terminated, from the driver itself', databaseError('57P01'), 'unknown'],
    ['a syntax error, from the driver itself', databaseError('42601'), 'ours'],
    ['broken pipe', socket('EPIPE'), 'unknown'],
    ['no free connection in time', new Error('timeout exceeded when trying to connect'), 'not_applied'],
    ['no connection in time', new Error('Connection terminated due to connection timeout'), 'not_applied'],
    ['no answer in time', new Error('Query read timeout'), 'unknown'],
    ['the socket closed', new Error('Connection terminated unexpectedly'), 'unknown'],
    ['starting up', sqlstate('57P03'), 'not_applied'],
    ['too many connections', sqlstate('53300'), 'not_applied'],
    ['disk full', sqlstate('53100'), 'not_applied'],
    ['read-only', sqlstate('25006'), 'not_applied'],
    ['lock timeout', sqlstate('55P03'), 'not_applied'],
    ['statement timeout', sqlstate('57014'), 'not_applied'],
    ['deadlock', sqlstate('40P01'), 'not_applied'],
    ['serialization failure', sqlstate('40001'), 'not_applied'],
    ['statement completion unknown', sqlstate('40003'), 'unknown'],
    ['terminated by an administrator', sqlstate('57P01'), 'unknown'],
    ['crash of another backend', sqlstate('57P02'), 'unknown'],
    ['a plan made before a migration', sqlstate('0A000'), 'not_applied'],
    ['an internal error of PostgreSQL', sqlstate('XX000'), 'unknown'],
    ['a CHECK violation', sqlstate('23514'), 'ours'],
    ['a syntax error', sqlstate('42601'), 'ours'],
    ['a bug', new TypeError('undefined is not a function'), 'ours'],
    ['a thrown string', 'oops', 'ours'],
  ])('reads %s', (_name, error, outcome) => {
    expect(outcomeOf(error)).toBe(outcome);
  });
});

describe('the answer', () => {
  it('to a failed read is service_unavailable, even when a write would be in doubt', () => {
    expect(readFailure(sqlstate('57P01'))).toMatchObject({
      code: 'service_unavailable',
      headers: { 'Retry-After': '1' },
    });
  });

  it('to a write in doubt is outcome_unknown', () => {
    expect(writeFailure(sqlstate('57P01'))).toMatchObject({ code: 'outcome_unknown', headers: { 'Retry-After': '1' } });
  });

  it('to a write that surely failed is service_unavailable', () => {
    expect(writeFailure(sqlstate('53100'))).toMatchObject({
      code: 'service_unavailable',
      headers: { 'Retry-After': '1' },
    });
  });

  it('says nothing of what the database said', () => {
    for (const error of [sqlstate('53100'), sqlstate('57P01'), socket('ECONNREFUSED')]) {
      expect((writeFailure(error) as ApiError).body()).not.toContain('secret');
    }
  });

  it('leaves a bug as it is', () => {
    const bug = new TypeError();
    expect([readFailure(bug), writeFailure(bug)]).toEqual([bug, bug]);
  });
});
