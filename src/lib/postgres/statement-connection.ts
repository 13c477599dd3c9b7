import { hash } from 'node:crypto';
import type { Client, Connection, DatabaseError, Submittable } from 'pg';
import { type Prepare, UNCONFIRMED_COMMIT, openConnection } from './connection-config.ts';
import { MAX_LIFETIME_SECONDS, type RequestSession, STALE_STATEMENT, configOfRequests } from './connection-pool.ts';
import { type ErrorReader, isProgramFault } from './database-failure.ts';
import { NotApplied, UnconfirmedCommit } from './outcomes.ts';

/** A row's columns as PostgreSQL wrote them. */
export type TextRow = readonly (string | null)[];

export interface Statement {
  readonly sql: string;
  /** As PostgreSQL reads them, arrays as {@link arrayLiteral} writes them. */
  readonly values: (string | null)[];
  /** True if no row means that PostgreSQL began it too late, and that it did nothing. */
  readonly isEmptyIfLate?: boolean;
}

/** Names statements by the program and the text alone, because a pooler may share a session between processes. */
export function statementNames(program: string): (statement: Pick<Statement, 'sql'>) => string {
  const names = new Map<string, string>();
  return ({ sql }) => {
    let name = names.get(sql);
    if (name === undefined) names.set(sql, (name = `${program}_${hash('sha256', sql).slice(0, 32)}`));
    return name;
  };
}

const prepared = new WeakMap<Connection, Set<string>>();

/**
 * A named statement whose rows are text. The driver's own query describes and parses every result, which costs more.
 */
class StatementRun<Row extends TextRow> implements Submittable {
  readonly rows: Row[] = [];
  isSent = false;
  /** Whether no synchronous standby has confirmed its commit. */
  isUnconfirmed = false;
  /** The driver wraps it in a bound of time. */
  declare callback: (error: Error | null, run?: unknown) => void;

  readonly #statement: Statement;
  readonly #name: string;

  constructor(statement: Statement, name: string) {
    this.#statement = statement;
    this.#name = name;
  }

  submit(connection: Connection): Error | null {
    const names = prepared.get(connection) ?? new Set();
    prepared.set(connection, names);
    const name = this.#name;
    connection.stream.cork();
    if (!names.has(name)) connection.parse({ name, text: this.#statement.sql, types: [] }, true);
    names.add(name);
    connection.bind({ statement: name, values: this.#statement.values }, true);
    connection.execute({}, true);
    connection.sync();
    this.isSent = true;
    connection.stream.uncork();
    return null;
  }

  handleDataRow({ fields }: { fields: Row }): void {
    this.rows.push(fields);
  }

  handleReadyForQuery(): void {
    this.callback(null, this);
  }

  handleError(error: Error): void {
    this.callback(error);
  }

  handleCommandComplete(): void {
    // The driver requires it.
  }
}

/**
 * One session for one hot statement at a time: a Batcher runs no two at once. It is opened when first used. A new one
 * follows after half an hour, and after each failure that refuses no value.
 */
export class StatementConnection {
  readonly #config: ReturnType<typeof configOfRequests>;
  readonly #errors: Pick<ErrorReader, 'failureOf'>;
  readonly #nameOf: ReturnType<typeof statementNames>;
  #session: Client | undefined;
  #renewAt = 0;
  #underWay: Pick<StatementRun<TextRow>, 'isUnconfirmed'> | undefined;
  #lastRun: Promise<unknown> | undefined;
  #isClosed = false;

  /** @param errors says whether an error leaves the session sound: one that refuses a value does */
  constructor(session: RequestSession, errors: Pick<ErrorReader, 'failureOf'>, prepare?: Prepare) {
    this.#config = configOfRequests(session, prepare);
    this.#errors = errors;
    this.#nameOf = statementNames(session.program);
  }

  /** Connects if needed, so that the next statement is sent at once. */
  open(): Promise<unknown> | undefined {
    return this.#live() ? undefined : this.#connect();
  }

  /** @throws NotApplied when it was not sent or begun too late, else what the driver failed with */
  async run<Row extends TextRow>(statement: Statement): Promise<Row[]> {
    const client = this.#live() ?? (await this.#connect());
    const run = (this.#underWay = new StatementRun<Row>(statement, this.#nameOf(statement)));
    try {
      await (this.#lastRun = new Promise<void>((resolve, reject) => {
        run.callback = (error) => (error ? reject(error) : resolve());
        client.query(run);
      }));
    } catch (error) {
      const isStale = STALE_STATEMENT.test((error as DatabaseError).code ?? '');
      if (isStale || this.#errors.failureOf(error).outcome !== 'refused') this.#end(client);
      throw run.isSent ? error : notSent(error);
    } finally {
      this.#underWay = undefined;
    }
    if (run.rows.length === 0 && statement.isEmptyIfLate) {
      this.#end(client); // the database's clock may have been set: a new session looks at it again
      throw new NotApplied('the database read the statement after its deadline');
    }
    if (run.isUnconfirmed) throw new UnconfirmedCommit();
    return run.rows;
  }

  /** Waits for the statement under way, and for PostgreSQL to end the session: bound it yourself. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#lastRun?.catch(() => undefined);
    await this.#session?.end();
  }

  #live(): Client | undefined {
    return performance.now() < this.#renewAt ? this.#session : undefined;
  }

  async #connect(): Promise<Client> {
    this.#end(this.#session); // it has reached its age
    try {
      const client = await openConnection(this.#config);
      client.on('error', () => this.#end(client));
      client.on('end', () => this.#end(client));
      client.on('notice', ({ routine }) => {
        if (this.#underWay && routine === UNCONFIRMED_COMMIT) this.#underWay.isUnconfirmed = true;
      });
      this.#session = client;
      this.#renewAt = performance.now() + MAX_LIFETIME_SECONDS * 1_000;
      if (this.#isClosed) this.#end(client);
      return client;
    } catch (error) {
      throw notSent(error);
    }
  }

  #end(client: Client | undefined): void {
    if (client === undefined || client !== this.#session) return;
    this.#session = undefined;
    void client.end();
  }
}

function notSent(error: unknown): unknown {
  return isProgramFault(error)
    ? error
    : new NotApplied('no database session could be used; nothing was sent', { cause: error });
}

export function arrayLiteral(values: readonly (string | number | bigint | boolean | null)[]): string {
  const elements = values.map((value) =>
    typeof value === 'string' ? `"${value.replaceAll(/["\\]/g, '\\$&')}"` : String(value ?? 'NULL'),
  );
  return `{${elements.join(',')}}`;
}
