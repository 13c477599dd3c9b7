import { hash } from 'node:crypto';
import type { Connection, PoolClient, Submittable } from 'pg';
import type { Settings } from '../settings.js';
import type { Prepare } from './connection-config.js';
import { ConnectionPool } from './connection-pool.js';
import { NotApplied, UnconfirmedCommit, isProgramFault, isRefusedValue } from './database-failure.js';

/** A row's columns as PostgreSQL wrote them. */
export type TextRow = readonly (string | null)[];

export interface Statement {
  readonly sql: string;
  /** As PostgreSQL reads them, arrays as {@link arrayLiteral} writes them. */
  readonly values: (string | null)[];
}

const names = new Map<string, string>();

/** By the text alone, because a pooler may share a session between processes. */
export function statementName({ sql }: Pick<Statement, 'sql'>): string {
  let name = names.get(sql);
  if (name === undefined) names.set(sql, (name = `inventory_${hash('sha256', sql).slice(0, 32)}`));
  return name;
}

const prepared = new WeakMap<Connection, Set<string>>();

/** A named statement whose rows are text. The driver's own query describes and parses every result, which costs more. */
class StatementRun<Row extends TextRow> implements Submittable {
  readonly rows: Row[] = [];
  isSent = false;
  /** The driver sets it. */
  declare callback: (error: Error | null, run?: unknown) => void;

  constructor(private readonly statement: Statement) {}

  submit(connection: Connection): Error | null {
    const names = prepared.get(connection) ?? new Set();
    prepared.set(connection, names);
    const name = statementName(this.statement);
    connection.stream.cork();
    if (!names.has(name)) connection.parse({ name, text: this.statement.sql, types: [] }, true);
    names.add(name);
    connection.bind({ statement: name, values: this.statement.values }, true);
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

/** One database connection for one hot statement at a time. It connects when first used, and again after a failure. */
export class StatementConnection {
  readonly #pool: ConnectionPool;

  constructor(settings: Settings, name: string, prepare?: Prepare) {
    this.#pool = new ConnectionPool(settings, name, 1, prepare);
  }

  /** Connects if needed, so that the next statement is sent at once. */
  open(): Promise<void> | undefined {
    return this.#pool.idleCount > 0 ? undefined : this.#connect().then((client) => client.release());
  }

  /**
   * @param statement has a row at least, unless PostgreSQL gets to read it too late and does nothing
   * @throws NotApplied when it was not sent or read too late, else what the driver failed with
   */
  async run<Row extends TextRow>(statement: Statement): Promise<Row[]> {
    const client = await this.#connect();
    const unconfirmedBefore = this.#pool.unconfirmedCommits;
    const run = new StatementRun<Row>(statement);
    try {
      await new Promise<void>((resolve, reject) => {
        run.callback = (error) => (error ? reject(error) : resolve());
        client.query(run);
      });
    } catch (error) {
      client.release(!isRefusedValue(error));
      throw run.isSent ? error : notSent(error);
    }
    const isTooLate = run.rows.length === 0;
    client.release(isTooLate); // by a clock that may have been set: a new session looks at it anew
    if (isTooLate) throw new NotApplied('the database read the statement after its deadline');
    if (this.#pool.unconfirmedCommits > unconfirmedBefore) throw new UnconfirmedCommit();
    return run.rows;
  }

  async #connect(): Promise<PoolClient> {
    try {
      return await this.#pool.connect();
    } catch (error) {
      throw notSent(error);
    }
  }

  async close(): Promise<void> {
    await this.#pool.end();
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
