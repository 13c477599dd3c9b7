import { randomUUID } from 'node:crypto';
import type { Client, DatabaseError } from 'pg';
import { DeadlinePassed } from './deadline.ts';
import { Failure, NotApplied, OutcomeUnknown, RefusedValue, TooManyWaiting } from './outcomes.ts';

/** `refused`: something that the operator added refuses the value. `program_fault`: a mistake of this program. */
export type Outcome = 'not_applied' | 'unknown' | 'refused' | 'program_fault';

/** What an error of the database means. With `not_applied` and `refused`, nothing was written. */
export interface DatabaseFailure {
  readonly outcome: Outcome;
  /** For the operator, in one line: no stack, no statement, no connection string. `; ` is before what to do. */
  readonly words: string;
  /** Whether another attempt may help. After a write of unknown outcome it may do harm. */
  readonly mayRetry: boolean;
  /** Of PostgreSQL (the SQLSTATE), Node.js or Prisma. */
  readonly code: string;
}

/** Of PostgreSQL or a pooler; Prisma's own codes look alike. Those of Node.js have no digit. */
const SQLSTATE = /^(?=.*\d)[0-9A-Z]{5}$/;
/**
 * A line of an error's context that names a function: "PL/pgSQL-Funktion veto() Zeile 1 bei RAISE",
 * `SQL関数"most"の行番号 1`. A statement of our own functions looks like the latter, but begins with a word of SQL:
 * `SQL-Anweisung »INSERT INTO …«`. An expression of theirs has brackets or operators:
 * `SQL expression "present || (SELECT …"`.
 */
const NAMES_A_FUNCTION = /\bPL\/|^(?=.*\bSQL\b)[^\p{QMark}]*\p{QMark}(?!\s?[A-Z]+\s)[^(|\p{QMark}]*\p{QMark}/u;
/** A line of parameters, which log_parameter_max_length_on_error adds. Their text is the client's. */
const PARAMETERS = /\$\d+ = /;
/** What an operator's function can say by its SQLSTATE: try again. Or PostgreSQL itself ended it. */
const TRY_AGAIN = /^(?:40|53|55|57|25P0[34])/;

export type Kind = readonly [pattern: RegExp, outcome: Outcome, words?: string | undefined, mayRetry?: false];

/**
 * The first pattern that matches decides. PostgreSQL's messages have any language: of an error with a SQLSTATE,
 * patterns see only the SQLSTATE, the routine, the constraint or index, and which of {@link OwnErrors.texts} the message
 * has. Of other errors, they see the code and, on the next lines, the message; the driver's and Node.js's are English.
 * In the words, `$1` is what the pattern captures, otherwise the message.
 *
 * An error that ends the transaction is `not_applied` if it can pass, or if an operator can repair it. One that can
 * follow the commit is `unknown`.
 */
const KINDS: readonly Kind[] = [
  // Wrong data, a constraint, a trigger, a view's check option, a function.
  [/^(?:22|23|27|44|P0)/, 'refused'],
  // An old plan. Any other 0A000 says that PostgreSQL cannot plan the statement because of a rule (CREATE RULE).
  [/^0A000 RevalidateCachedQuery/, 'not_applied'],
  [/^(?:0A000|42P17|XX000 ReplaceVars?FromTargetList)/, 'not_applied', undefined, false],
  [/^(?:42P01|42703|42704|42883)/, 'not_applied'], // a table, column, type or function is not there (yet)
  [
    /^3F000/,
    'not_applied',
    'the database has no schema "public", or what DATABASE_URL has as its schema; make it first',
  ],
  [/^42501 ExecWithCheckOptions/, 'refused'], // by a policy of row security
  [
    /^42501 check_enable_rls/,
    'not_applied',
    'row security hides rows from the role of DATABASE_URL ($1); use a role with BYPASSRLS, or the owner of the table if that sees all rows',
    false,
  ],
  [/^42501/, 'not_applied', undefined, false],
  [/^25006/, 'not_applied', 'the database takes no writes: it is a standby, or default_transaction_read_only is on'],
  [/^55P03/, 'not_applied', 'another transaction holds what this needs and did not let go in time; try again'],
  [/^57014/, 'not_applied', 'the database cut the statement off: it took too long, or somebody cancelled it'],
  [/^(?:26|42P05)/, 'not_applied'], // a pooler does not keep the named statements of its clients
  [
    /^53300/, // PostgreSQL names the role or the database if its own limit is reached
    'not_applied',
    'PostgreSQL has no connection left: $1 (53300); raise the limit (max_connections, or the CONNECTION LIMIT of the role or database that is named), or open fewer',
  ],
  // No such database; serialization failure, deadlock; no disk, memory or connection left; an object in use.
  [/^(?:3D|40(?!003)|53|55)/, 'not_applied'],
  // Sessions that ended before their commit; could not connect; starting up; the database was dropped, or the session
  // was idle.
  [/^(?:25P03|25P04|08001|08004|57P03|57P04|57P05)/, 'not_applied'],
  [/^(?:00|01|02|03|09|0B|0F|0L|0P|0Z|10|20|21|24|25|2B|2D|2F|34|38|39|3B|42|54)/, 'program_fault'],
  [
    /^(.*(?:certificate|SSL connections|unknown ca)[^;\n]*?)[ :]*(?:;.*)?$/m,
    'not_applied',
    'no TLS with the database of DATABASE_URL: $1; check its host, sslmode, sslrootcert, sslcert and sslkey',
  ],
  [
    /^28000/,
    'not_applied',
    'the database refuses this connection: $1; check role, database, sslmode and sslcert of DATABASE_URL, and pg_hba.conf',
  ],
  [
    /^28P01/,
    'not_applied',
    'the database refuses the login: $1 (28P01); check user and password: DATABASE_URL, its password file, PGPASSWORD',
  ],
  // From here on, errors of the connection. On an open session they do not show what became of the statement. Neither
  // do the other classes: shutdowns, I/O errors (which poolers also use for theirs), internal errors, another server's
  // part of a commit.
  [
    /client password must be/,
    'unknown',
    'the database wants a password; DATABASE_URL, its password file and PGPASSWORD have none',
  ],
  [
    /^(timeout expired|SocketTimeout)$|^timeout exceeded|due to connection timeout$|^Query read timeout|^deadline passed/m,
    'unknown',
    'the database did not answer in time; check DATABASE_URL and the database',
  ],
  [
    /^(ConnectionClosed$|Connection terminated)/m,
    'unknown',
    'the connection to the database was lost; check DATABASE_URL and the database',
  ],
  [
    /^DatabaseNotReachable/,
    'unknown',
    'the database cannot be reached: no such host, or nothing listens at $1; check DATABASE_URL',
  ],
  [/^E(?:AI_)?[A-Z]+\n(?:[^]*\n)?(.*)$/, 'unknown', 'the database cannot be reached: $1; check DATABASE_URL'],
];

/** What a program knows of its own database. */
export interface OwnErrors {
  /** The functions that its migrations make. An error in any other function is a refusal of the operator. */
  readonly functions: readonly string[];
  /** Looked at before all other kinds. */
  readonly kinds: readonly Kind[];
  /** Texts and names of the program that PostgreSQL repeats in messages of any language, such as a sequence's. */
  readonly texts?: readonly string[];
  readonly withoutSecrets: (text: string) => string;
}

export type ErrorReader = ReturnType<typeof errorReader>;

/** Says what an error means. The functions may be called alone. */
export function errorReader({ functions, kinds: ownKinds, texts = [], withoutSecrets }: OwnErrors) {
  const kinds = [...ownKinds, ...KINDS];
  const anyOf = (names: readonly string[]) => new RegExp(`(?<!\\w)(?:${names.join('|') || '(?!)'})(?!\\w)`);
  const ownFunction = anyOf(functions);
  const ownText = anyOf(texts);
  // By its SQLSTATE alone, 42P01 from a trigger whose author dropped a table means that our tables are missing, and
  // 42601 that this program is wrong: then one refused update would fail its whole batch, at each attempt.
  const isOfOperator = (where = '') =>
    where.split('\n').some((line) => NAMES_A_FUNCTION.test(line) && !ownFunction.test(line) && !PARAMETERS.test(line));

  /** Reads an error of any layer: the round trip, the session, the driver, Prisma. */
  function failureOf(error: unknown): DatabaseFailure {
    const root = rootOf(error instanceof Error ? error : new Error(String(error)));
    const { code = '', message, routine, constraint, where } = root;
    const facts = [code, routine, constraint, ownText.exec(message)?.[0]];
    const text = SQLSTATE.test(code) ? facts.filter(Boolean).join(' ') : `${code}\n${message}`;
    const ofOperator: Kind | false = isOfOperator(where) && [/^/, TRY_AGAIN.test(code) ? 'not_applied' : 'refused'];
    const kind: Kind = ofOperator || (kinds.find(([pattern]) => pattern.test(text)) ?? [/^/, 'unknown']);
    const [pattern, outcome, words = `$1${code && ` (${code})`}`, mayRetry] = kind;
    // Without `; `, which is before what to do.
    const said = withoutSecrets(pattern.exec(text)?.[1] ?? message.trim().split('\n', 1)[0] ?? '').replaceAll(';', ',');
    return {
      outcome,
      mayRetry: mayRetry ?? (outcome === 'not_applied' || outcome === 'unknown'),
      ...knownOutcome(error),
      words: error instanceof Failure ? error.message : words.replace('$1', () => said),
      code,
    };
  }

  /** Whether another attempt at a write may help, and does no harm. */
  function mayWriteAgain(error: unknown): boolean {
    const { outcome, mayRetry } = failureOf(error);
    return mayRetry && outcome === 'not_applied';
  }

  const mayReadAgain = (error: unknown) => failureOf(error).mayRetry;

  /** For reading, which offers no value to refuse. @returns NotApplied in the operator's words; our own fault as it is */
  function readFailure(error: unknown): unknown {
    const { outcome, words } = failureOf(error);
    const isInWords = error instanceof NotApplied && error.cause === undefined;
    if (isInWords || outcome === 'program_fault') return error;
    return new NotApplied(words, { cause: error });
  }

  /** @returns RefusedValue, NotApplied or OutcomeUnknown in the operator's words; a fault of this program as it is */
  function writeFailure(error: unknown): unknown {
    const { outcome, words } = failureOf(error);
    if (outcome === 'refused') return error instanceof RefusedValue ? error : new RefusedValue(words, { cause: error });
    return outcome === 'unknown' ? new OutcomeUnknown(words, { cause: error }) : readFailure(error);
  }

  return { failureOf, mayWriteAgain, mayReadAgain, writeFailure, readFailure };
}

/** What this program itself found, whatever the error's cause says. */
function knownOutcome(error: unknown): Pick<DatabaseFailure, 'outcome' | 'mayRetry'> | undefined {
  if (isProgramFault(error)) return { outcome: 'program_fault', mayRetry: false };
  if (error instanceof RefusedValue) return { outcome: 'refused', mayRetry: false };
  if (error instanceof OutcomeUnknown) return { outcome: 'unknown', mayRetry: true };
  if (error instanceof NotApplied) return { outcome: 'not_applied', mayRetry: !(error instanceof TooManyWaiting) };
  if (error instanceof DeadlinePassed) return { outcome: error.sent ? 'unknown' : 'not_applied', mayRetry: true };
  return undefined;
}

/** Another attempt cannot repair an error of JavaScript itself, or of Prisma about its arguments. */
export function isProgramFault(error: unknown): boolean {
  const mistakes = [TypeError, RangeError, ReferenceError, SyntaxError];
  if (!(error instanceof Error) || mistakes.some((kind) => error instanceof kind)) return true;
  return error.name === 'PrismaClientValidationError';
}

/** What PostgreSQL says of an error in any language. */
interface Facts {
  /** The function of its source that raised the error. */
  readonly routine?: string | undefined;
  readonly constraint?: string | undefined;
  /** Which functions it was in. */
  readonly where?: string | undefined;
}

interface ErrorFacts extends Facts {
  readonly code?: string | undefined;
  readonly message: string;
  readonly errors?: unknown[];
  readonly cause?: unknown;
  readonly meta?: { driverAdapterError?: unknown };
}

/** Nobody else can write it: a message may have any text, and an error of the login has no facts. */
const FACTS = `\nFACTS ${randomUUID()}: `;

/** Prisma's adapter keeps only code and message of an error, so the message gets the facts. */
export function keepFacts({ connection }: Pick<Client, 'connection'>): void {
  connection.on('errorMessage', (error: DatabaseError) => {
    const { routine, constraint, where }: Facts = error;
    error.message += FACTS + JSON.stringify({ routine, constraint, where });
  });
}

/** The innermost error: Prisma and Node.js wrap what the driver said. */
function rootOf(error: ErrorFacts): ErrorFacts {
  const { code, message, meta, errors, cause } = error;
  // The cause of this error is only what the pool itself did to the connection.
  if (message.endsWith('due to connection timeout')) return { code, message };
  const inner = meta?.driverAdapterError ?? errors?.[0] ?? cause;
  if (inner instanceof Error) return rootOf(inner);
  if (typeof inner !== 'object' || inner === null) return error;
  const { originalCode, kind, originalMessage, reason, host, port } = inner as Record<string, string | undefined>;
  const whole = originalMessage ?? reason ?? (host === undefined ? message : [host, port].filter(Boolean).join(':'));
  const [text = '', ...facts] = whole.split(FACTS);
  return { code: originalCode ?? kind, message: text, ...(JSON.parse(facts.at(-1) ?? '{}') as Facts) };
}
