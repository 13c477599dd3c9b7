import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { failureOf, mayWriteAgain, NOT_AS_REQUESTED, NOT_NEWEST } from './database-errors.ts';

const databaseError = (code: string, message: string, facts: { routine?: string; constraint?: string } = {}) =>
  Object.assign(new pg.DatabaseError(message, message.length, 'error'), { code, ...facts });

const IN_THE_WAY = 'another transaction was in the way; try again; after a restore run "inventory migrate" first';
const UNNAMED =
  'a pooler does not keep the named statements of its clients (no); use PgBouncer 1.21 or later with max_prepared_statements above 0, or session mode (docs/deployment.md)';
const RIGHTS =
  'the role of DATABASE_URL lacks a right (no $1); a service needs what "inventory check" names, commands need the owner of the tables, and an import also TEMPORARY on the database ("Start" in docs/operations.md)';
const USED_UP = (message: string) =>
  `the ids of the history are used up (${message}); as the owner, raise its MAXVALUE (ALTER SEQUENCE), or set it to the newest id (setval)`;

describe('failureOf gives outcome and words of', () => {
  it.each<[string, Parameters<typeof databaseError>, string, string]>([
    ...['42P01', '42703', '42704', '42883'].map((code): [string, [string, string], string, string] => [
      `what is missing (${code})`,
      [code, 'no'],
      'not_applied',
      NOT_NEWEST,
    ]),
    ['a deadlock', ['40P01', 'no'], 'not_applied', IN_THE_WAY],
    ['a named statement that a pooler lost', ['26000', 'no'], 'not_applied', UNNAMED],
    ['a missing right', ['42501', 'no $1', { routine: 'aclcheck_error' }], 'not_applied', RIGHTS],
    [
      'a row that a trigger changed, in any language',
      ['22P02', `ungültige Eingabesyntax für Typ integer: »${NOT_AS_REQUESTED} 1«`],
      'refused',
      NOT_AS_REQUESTED,
    ],
    ["a number of the operator's own that is none", ['22P02', 'no'], 'refused', 'no (22P02)'],
  ])('%s', (_name, error, outcome, words) => {
    expect(failureOf(databaseError(...error))).toMatchObject({ outcome, words });
  });

  it.each(['"', '»'])('ids that are used up, which depends on whose they are (%s)', (quote) => {
    const facts = { routine: 'nextval_internal' };
    const usedUp = (sequence: string) =>
      databaseError('2200H', `nextval: ${quote}${sequence}${quote} (9223372036854775807)`, facts);
    const ours = usedUp('stock_change_id_seq');
    expect(failureOf(ours)).toMatchObject({ outcome: 'not_applied', words: USED_UP(ours.message) });
    expect(mayWriteAgain(ours)).toBe(false);
    for (const sequence of ['their_id_seq', 'my_stock_change_id_seq', 'stock_change_id_seq1'])
      expect(failureOf(usedUp(sequence))).toMatchObject({ outcome: 'refused' });
  });

  it('a unique rule, which depends on whose rule it is', () => {
    const conflict = (index: string) =>
      failureOf(databaseError('23505', 'no', { routine: '_bt_check_unique', constraint: index }));
    for (const own of ['stock_change_pkey', 'stock_change_idempotency_key', 'api_key_key_sha256_key'])
      expect(conflict(own)).toMatchObject({ outcome: 'not_applied', words: IN_THE_WAY });
    for (const other of ['their_rule', 'my_stock_change_pkey', 'my stock_change_pkey', 'stock_change_pkey1'])
      expect(conflict(other)).toMatchObject({ outcome: 'refused', words: 'no (23505)' });
    expect(conflict('inventory_item_pkey')).toMatchObject({ outcome: 'refused' });
  });
});
