import { EventEmitter } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DriverAdapterError } from '@prisma/driver-adapter-utils';
import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { postgresBinaries } from '../../../dev/postgres-binaries.ts';
import { Prisma } from '../../generated/prisma/client.ts';
import { errorReader, keepFacts } from './database-failure.ts';
import { DeadlinePassed } from './deadline.ts';
import { Failure, NotApplied, OutcomeUnknown, RefusedValue, TooManyWaiting, UnconfirmedCommit } from './outcomes.ts';

const { failureOf, mayReadAgain, mayWriteAgain, readFailure, writeFailure } = errorReader({
  functions: ['record_change', 'changed_by', 'witness_of'],
  kinds: [
    [/^23505 (?:\S+ )?own_rule$/, 'not_applied', 'try again'],
    [/^22P02 own text$/, 'refused', 'in our own words'],
  ],
  texts: ['own text'],
  withoutSecrets: (text) => text.replace(/key_\w+/, '[key]'),
});

const databaseError = (
  code: string,
  message = 'secret',
  facts: { routine?: string; constraint?: string; where?: string } = {},
) => Object.assign(new pg.DatabaseError(message, message.length, 'error'), { code, ...facts });
/** What Prisma's adapter makes of an error that has kept its facts. */
const adapter = (...args: Parameters<typeof databaseError>) => {
  const error = databaseError(...args);
  const connection = new EventEmitter();
  keepFacts({ connection } as never);
  connection.emit('errorMessage', error);
  return adapterError({ kind: 'postgres', originalCode: error.code, originalMessage: error.message });
};
const adapterError = (cause: object) => new DriverAdapterError(cause as never);
const ofPrisma = (driverAdapterError: object) =>
  new Prisma.PrismaClientKnownRequestError('secret', {
    code: 'P2010',
    clientVersion: '7',
    meta: { driverAdapterError },
  });
const prisma = (...args: Parameters<typeof databaseError>) => ofPrisma(adapter(...args));
const failure = (message: string, code?: string, cause?: unknown) =>
  Object.assign(new Error(message, { cause }), code === undefined ? {} : { code });

const STANDBY = 'the database takes no writes: it is a standby, or default_transaction_read_only is on';
const LOST = 'the connection to the database was lost; check DATABASE_URL and the database';
const SILENT = 'the database did not answer in time; check DATABASE_URL and the database';
const REFUSED =
  'the database refuses this connection: secret; check role, database, sslmode and sslcert of DATABASE_URL, and pg_hba.conf';
const HIDDEN =
  'row security hides rows from the role of DATABASE_URL (no); use a role with BYPASSRLS, or the owner of the table if that sees all rows';
const VETO = { where: 'PL/pgSQL function shop.veto(integer) line 3 at RAISE' };
const RECORDED = { where: 'PL/pgSQL function shop.record_change() line 7 at SQL statement' };

const errcodes = readFileSync(join(postgresBinaries('18'), 'share', 'postgresql', 'errcodes.txt'), 'utf8');
const sqlstates = [...new Set([...errcodes.matchAll(/^([0-9A-Z]{5}) /gm)].map(([, code = '']) => code))];

describe('failureOf gives outcome and words of', () => {
  it.each<[string, unknown, string, string]>([
    ['too many waiting', new TooManyWaiting(), 'not_applied', 'too many calls wait for the database'],
    [
      'a session that did not begin',
      new NotApplied('nothing was sent', { cause: failure('connect ECONNREFUSED 127.0.0.1:1', 'ECONNREFUSED') }),
      'not_applied',
      'the database cannot be reached: connect ECONNREFUSED 127.0.0.1:1; check DATABASE_URL',
    ],
    ['a deadline before the statement was sent', new DeadlinePassed({ sent: false }), 'not_applied', SILENT],
    ['a deadline after the statement was sent', new DeadlinePassed({ sent: true }), 'unknown', SILENT],
    [
      'a commit that no standby confirmed',
      new UnconfirmedCommit(),
      'unknown',
      'the commit is not confirmed by the synchronous standby',
    ],
    ['a SQLSTATE from the driver', databaseError('25006'), 'not_applied', STANDBY],
    ['a SQLSTATE from the adapter', adapter('25006'), 'not_applied', STANDBY],
    ['a SQLSTATE from Prisma', prisma('25006'), 'not_applied', STANDBY],
    ['what another error wraps', failure('outer', 'P2010', databaseError('25006')), 'not_applied', STANDBY],
    ['words for the operator', new Failure('no key x\nand no y'), 'unknown', 'no key x\nand no y'],
    [
      'a query that Prisma refuses',
      new Prisma.PrismaClientValidationError('odd', { clientVersion: '7' }),
      'program_fault',
      'odd',
    ],
    ...[TypeError, RangeError, ReferenceError, SyntaxError].map((kind): [string, unknown, string, string] => [
      `a bug, ${kind.name}`,
      new kind('odd'),
      'program_fault',
      'odd',
    ]),
    ['a text that is no error, without the key in it', 'odd key_a1', 'program_fault', 'odd [key]'],
    // On an open session, an error of the socket or of TLS says nothing about the statement's effect.
    ['a lost connection', failure('Connection terminated unexpectedly'), 'unknown', LOST],
    ['a connection that Prisma lost', ofPrisma(adapterError({ kind: 'ConnectionClosed' })), 'unknown', LOST],
    ['a frozen database', failure('Query read timeout'), 'unknown', SILENT],
    ['a socket that is silent for Prisma', ofPrisma(adapterError({ kind: 'SocketTimeout' })), 'unknown', SILENT],
    ['a pool without a connection in time', failure('timeout exceeded when trying to connect'), 'unknown', SILENT],
    ['a connection that takes too long', failure('timeout expired'), 'unknown', SILENT],
    [
      'a connection that the pool has cut',
      failure('Connection terminated due to connection timeout', '', failure('Connection terminated unexpectedly')),
      'unknown',
      SILENT,
    ],
    [
      'a broken record of TLS',
      failure('odd', 'ERR_SSL_DECRYPTION_FAILED_OR_BAD_RECORD_MAC'),
      'unknown',
      'odd (ERR_SSL_DECRYPTION_FAILED_OR_BAD_RECORD_MAC)',
    ],
    [
      'a server without TLS',
      failure('The server does not support SSL connections'),
      'not_applied',
      'no TLS with the database of DATABASE_URL: The server does not support SSL connections; check its host, sslmode, sslrootcert, sslcert and sslkey',
    ],
    [
      'a client certificate that the server refuses',
      failure('tlsv1 alert unknown ca'),
      'not_applied',
      'no TLS with the database of DATABASE_URL: tlsv1 alert unknown ca; check its host, sslmode, sslrootcert, sslcert and sslkey',
    ],
    [
      'a host with two addresses',
      failure('', 'ECONNREFUSED', new AggregateError([failure('connect ECONNREFUSED ::1:1', 'ECONNREFUSED')])),
      'unknown',
      'the database cannot be reached: connect ECONNREFUSED ::1:1; check DATABASE_URL',
    ],
    [
      'a name server that does not answer',
      failure('getaddrinfo EAI_AGAIN db', 'EAI_AGAIN'),
      'unknown',
      'the database cannot be reached: getaddrinfo EAI_AGAIN db; check DATABASE_URL',
    ],
    [
      'a socket that is not there, in the words of Prisma',
      failure('\nInvalid `prisma.$queryRawUnsafe()` invocation:\n\n\nconnect ENOENT /run/.s.PGSQL.5432', 'ENOENT'),
      'unknown',
      'the database cannot be reached: connect ENOENT /run/.s.PGSQL.5432; check DATABASE_URL',
    ],
    [
      'a host that Prisma cannot reach',
      ofPrisma(adapterError({ kind: 'DatabaseNotReachable', host: 'db', port: 5432 })),
      'unknown',
      'the database cannot be reached: no such host, or nothing listens at db:5432; check DATABASE_URL',
    ],
    ['the reason that Prisma has', ofPrisma(adapterError({ kind: 'x', reason: 'odd' })), 'unknown', 'odd (x)'],
    ['an unknown error', failure('\nodd\nmore'), 'unknown', 'odd'],
    ['an error with a text for its cause', failure('odd', '53100', 'text'), 'not_applied', 'odd (53100)'],
    [
      'a lock',
      databaseError('55P03'),
      'not_applied',
      'another transaction holds what this needs and did not let go in time; try again',
    ],
    [
      'a cancelled statement',
      databaseError('57014'),
      'not_applied',
      'the database cut the statement off: it took too long, or somebody cancelled it',
    ],
    [
      "a value that the program's own statement refuses",
      databaseError('22P02', 'invalid input: "own text 1"'),
      'refused',
      'in our own words',
    ],
    [
      'no connection left, with the name of the role or database whose limit it is',
      databaseError('53300', 'too many connections for role "clerk"'),
      'not_applied',
      'PostgreSQL has no connection left: too many connections for role "clerk" (53300); raise the limit (max_connections, or the CONNECTION LIMIT of the role or database that is named), or open fewer',
    ],
    ["an operator's function", databaseError('INV01', 'no', VETO), 'refused', 'no (INV01)'],
    ["an operator's function, from Prisma", prisma('INV01', 'no', VETO), 'refused', 'no (INV01)'],
    [
      "an operator's function that lacks a right",
      databaseError('42501', 'permission denied for table x', VETO),
      'refused',
      'permission denied for table x (42501)',
    ],
    [
      "an operator's function that one of ours called",
      prisma('XX000', 'no', { where: `${VETO.where}\n${RECORDED.where}` }),
      'refused',
      'no (XX000)',
    ],
    [
      "an operator's function that says: try again",
      databaseError('57P01', 'later', VETO),
      'not_applied',
      'later (57P01)',
    ],
    ['one of our functions', prisma('XX000', 'no', RECORDED), 'unknown', 'no (XX000)'],
    [
      'an error without a function',
      databaseError('INV01', 'no', { where: 'while locking tuple (0,1)' }),
      'unknown',
      'no (INV01)',
    ],
    ['a role that is not let in', databaseError('28000'), 'not_applied', REFUSED],
    ['row security that hides rows', prisma('42501', 'no', { routine: 'check_enable_rls' }), 'not_applied', HIDDEN],
  ])('%s', (_name, error, outcome, words) => {
    expect(failureOf(error)).toMatchObject({ outcome, words });
  });

  describe('SQLSTATEs', () => {
    const having = (outcome: string) =>
      sqlstates.filter((code) => failureOf(databaseError(code)).outcome === outcome).sort();
    const classes = (outcome: string) => [...new Set(having(outcome).map((code) => code.slice(0, 2)))].join(' ');

    it('each of PostgreSQL 18', () => {
      expect(sqlstates.length).toBeGreaterThan(250);
      expect(having('not_applied').join(' ')).toBe(
        '08001 08004 0A000 25006 25P03 25P04 26000 28000 28P01 3D000 3F000 40000 40001 40002 40P01 42501 42703 42704 ' +
          '42883 42P01 42P05 42P17 53000 53100 53200 53300 53400 55000 55006 55P02 55P03 55P04 57014 57P03 57P04 57P05',
      );
      const unknown = having('unknown').filter((code) => !code.startsWith('HV'));
      expect(unknown.join(' ')).toBe(
        '08000 08003 08006 08007 08P01 40003 57000 57P01 57P02 58000 58030 58P01 58P02 58P03 F0000 F0001 XX000 XX001 XX002',
      );
      expect(classes('refused')).toBe('22 23 27 44 P0');
      expect(classes('program_fault')).toBe('00 01 02 03 09 0B 0F 0L 0P 0Z 10 20 21 24 25 2B 2D 2F 34 38 39 3B 42 54');
    });
  });

  it.each([databaseError, adapter, prisma])('a unique rule, which depends on whose rule it is (%#)', (error) => {
    const conflict = (constraint: string) =>
      failureOf(error('23505', 'secret', { routine: '_bt_check_unique', constraint }));
    expect(conflict('own_rule')).toMatchObject({ outcome: 'not_applied', words: 'try again' });
    expect(conflict('their_rule')).toMatchObject({ outcome: 'refused', words: 'secret (23505)' });
  });
});

/** PostgreSQL translates messages and contexts (`lc_messages`). */
describe('the language of PostgreSQL changes no outcome:', () => {
  it('whatever the words of an error with a SQLSTATE are', () => {
    const meanings = (words: string) =>
      sqlstates.flatMap((code) =>
        [databaseError, prisma].map((error) => ({ ...failureOf(error(code, words)), words: code })),
      );
    for (const words of [
      'duplicate key value violates unique constraint "change_pkey"',
      'new row violates row-level security policy for table "thing"',
      'query would be affected by row-level security policy for table "thing"',
      'permission denied for table thing',
      'cannot perform UPDATE RETURNING on relation "thing"',
      'could not find replacement targetlist entry',
      'no pg_hba.conf entry for host "::1", user "a", database "b", no encryption',
      'client password must be a string',
      'certificate authentication failed for user "a"',
      'timeout expired',
      'Connection terminated unexpectedly',
      'ECONNREFUSED',
    ])
      expect(meanings(words)).toEqual(meanings('Geheimnis'));
  });

  it.each([
    ['42501', 'ExecWithCheckOptions', 'neue Zeile verletzt Policy für Sicherheit auf Zeilenebene', 'refused', false],
    ['42501', 'check_enable_rls', 'Policy würde Auswirkung auf die Anfrage haben', 'not_applied', false],
    ['42501', 'aclcheck_error', 'keine Berechtigung für Tabelle thing', 'not_applied', false],
    ['0A000', 'RewriteQuery', 'UPDATE RETURNING kann nicht ausgeführt werden', 'not_applied', false],
    ['0A000', 'RevalidateCachedQuery', 'gecachter Plan darf den Ergebnistyp nicht ändern', 'not_applied', true],
    // PostgreSQL 15 to 17, and 18
    ['XX000', 'ReplaceVarsFromTargetList_callback', 'could not find replacement', 'not_applied', false],
    ['XX000', 'ReplaceVarFromTargetList', 'could not find replacement', 'not_applied', false],
  ])('%s of %s', (code, routine, words, outcome, mayRetry) => {
    for (const error of [databaseError, adapter, prisma])
      expect(failureOf(error(code, words, { routine }))).toMatchObject({ outcome, mayRetry });
  });

  it("a text that is the program's own", () => {
    const error = databaseError('22P02', 'ungültige Eingabesyntax für Typ integer: »own text 1«');
    expect(failureOf(error)).toMatchObject({ outcome: 'refused', words: 'in our own words' });
  });

  /** Translations of each kind of quotation mark and order: in a function in SQL, in a statement of one in PL/pgSQL. */
  it.each([
    ['SQL-Funktion »most« beim Inlining', 'SQL-Anweisung »#«', 'PL/pgSQL-Funktion % Zeile 1 bei RAISE'],
    ['fonction SQL «\u00A0most\u00A0»', 'instruction SQL «\u00A0#\u00A0»', 'fonction PL/pgSQL %, ligne 1'],
    ['SQL関数"most"の行番号 1', 'SQL文 "#"', 'PL/pgSQL関数%の1行目 - RAISE'],
    ['"most" SQL 함수를 인라인으로 바꾸는 중', 'SQL 구문: "#"', 'PL/pgSQL 함수 "%" 의 1번째 RAISE'],
    ['內嵌 SQL 函式 "most" 期間', 'SQL 敘述 "#"', 'PL/pgSQL 函式 % 第 1 行於 RAISE'],
    ['SQL function "most" during startup', 'SQL statement "#"', '% PL/pgSQL fonksiyonu, 1. satır, RAISE içinde'],
  ])('whose function it was in: %s', (inSql, statement, inPl) => {
    const outcomeIn = (...lines: string[]) => failureOf(prisma('42P01', 'no', { where: lines.join('\n') })).outcome;
    const theirs = inPl.replace('%', 'shop.veto(integer)');
    const ours = [
      statement.replace('#', 'INSERT INTO "change" VALUES (1,\n  2)'),
      inPl.replace('%', 'record_change()'),
    ];
    expect(outcomeIn(...ours)).toBe('not_applied');
    const expression = statement.replace('#', `present || (SELECT ' '\n  FROM pg_stat_wal)`);
    expect(outcomeIn(expression, inPl.replace('%', 'witness_of(text)'))).toBe('not_applied');
    expect(outcomeIn(inSql.replace('most', 'changed_by'))).toBe('not_applied');
    for (const lines of [[inSql], [inSql, ...ours], [theirs], [theirs, ...ours]])
      expect(outcomeIn(...lines)).toBe('refused');
  });

  it('an error whose context has parameters (log_parameter_max_length_on_error)', () => {
    // X-Request-Id and If-Match are the client's.
    const where = `unnamed portal with parameters: $1 = '1', $2 = '{SQL}', $3 = '{"PL/pgSQL"}', $4 = NULL`;
    expect(failureOf(prisma('42501', 'no $1', { where }))).toMatchObject({ outcome: 'not_applied' });
    expect(failureOf(prisma('42501', 'no', { where: `${VETO.where}\n${where}` }))).toMatchObject({
      outcome: 'refused',
    });
  });
});

it('a message of somebody else cannot pretend to have facts', () => {
  const facts = JSON.stringify({ where: VETO.where });
  const forged = [`no\nFACTS: ${facts}`, 'no\nFACTS: {', 'no\nFACTS: null'];
  for (const message of forged) {
    const early = adapterError({ kind: 'postgres', originalCode: '57P03', originalMessage: message }); // of a login
    expect(failureOf(early)).toMatchObject({ outcome: 'not_applied', words: 'no (57P03)' });
    expect(failureOf(prisma('42P01', message))).toMatchObject({ outcome: 'not_applied' });
  }
});

describe('another attempt', () => {
  const old = databaseError('0A000', 'secret', { routine: 'RevalidateCachedQuery' });
  it.each([
    ['lost connection', databaseError('57P01'), true, false],
    ['lock', databaseError('55P03'), true, true],
    ['old plan', old, true, true],
    ['rule', databaseError('0A000', 'secret', { routine: 'RewriteQuery' }), false, false],
    ['missing right', databaseError('42501'), false, false],
    ['refused value', databaseError('23514'), false, false],
    ['bug', new TypeError(), false, false],
    ['crowd', new TooManyWaiting(), false, false],
    ['unknown outcome', new OutcomeUnknown('x', { cause: databaseError('55P03') }), true, false],
  ])('after a failure by a %s is made only where it may help', (_name, error, reads, writes) => {
    expect([mayReadAgain(error), mayWriteAgain(error)]).toEqual([reads, writes]);
  });
});

describe('a failure', () => {
  it.each([
    ['of a read, even where a write would be in doubt,', readFailure, '57P01', NotApplied],
    ['of a read that a rule refuses', readFailure, '22012', NotApplied],
    ['of a write in doubt', writeFailure, '57P01', OutcomeUnknown],
    ['of a write that surely failed', writeFailure, '53100', NotApplied],
    ['of a write that a constraint refuses', writeFailure, '23514', RefusedValue],
  ])('%s becomes an outcome in words, with its cause', (_, thrownBy, sqlstate, outcome) => {
    const cause = databaseError(sqlstate);
    expect(thrownBy(cause)).toEqual(new outcome(`secret (${sqlstate})`, { cause }));
  });

  it('that the deadline ended has the message of the failure before it', () => {
    const ended = Object.assign(new DeadlinePassed({ sent: false }), {
      cause: new NotApplied('another session holds the row'),
    });
    expect(readFailure(ended)).toMatchObject({ message: 'another session holds the row', cause: ended });
  });

  it('is returned unchanged when it is complete or a bug', () => {
    for (const error of [new TooManyWaiting(), new TypeError(), databaseError('42P02')])
      expect([readFailure(error), writeFailure(error)]).toEqual([error, error]);
    const refused = new RefusedValue('no');
    expect(writeFailure(refused)).toBe(refused);
  });
});
