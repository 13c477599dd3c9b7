import { hash } from 'node:crypto';
import type { Connection, Submittable } from 'pg';

/** A row's columns as PostgreSQL wrote them. */
export type TextRow = readonly (string | null)[];

export interface Statement {
  readonly sql: string;
  /** Parameters as PostgreSQL reads them, arrays as {@link arrayLiteral} writes them. */
  readonly args: (string | null)[];
}

/** Names depend on the statement's text alone, so that in a session that processes share none can run another's plan. */
const statementNames = new Map<string, string>();
export function statementName({ sql }: Pick<Statement, 'sql'>): string {
  let name = statementNames.get(sql);
  if (name === undefined) statementNames.set(sql, (name = `inventory_${hash('sha256', sql).slice(0, 32)}`));
  return name;
}

/** The names that each connection has prepared. Where a statement fails, the pool drops its connection. */
const prepared = new WeakMap<Connection, Set<string>>();

/**
 * One run of named statements, sent together, that yields their rows as text. The driver's own query class has every
 * result described and parsed anew, which costs more than the rest of a short trip.
 */
export class StatementRun<Row extends TextRow = TextRow> implements Submittable {
  readonly rows: Row[] = [];
  /** Whether PostgreSQL may have got any of it. */
  isSent = false;
  /** The driver's: called once, at the end. */
  declare callback: (error: Error | null, run?: unknown) => void;

  constructor(private readonly statements: readonly Statement[]) {}

  /** @returns why nothing could be sent, as the driver wants to know it */
  submit(connection: Connection): Error | null {
    connection.stream.cork();
    const names = prepared.get(connection) ?? new Set();
    prepared.set(connection, names);
    for (const statement of this.statements) {
      const name = statementName(statement);
      if (!names.has(name)) connection.parse({ name, text: statement.sql, types: [] }, true);
      names.add(name);
      connection.bind({ statement: name, values: statement.args }, true);
      connection.execute({}, true);
    }
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
    // The rows are all that is asked for.
  }
}

type Value = string | number | bigint | boolean | null;

/** An array as PostgreSQL reads it. */
export function arrayLiteral(values: readonly Value[]): string {
  return `{${values.map((value) => (typeof value === 'string' ? quoted(value) : String(value ?? 'NULL'))).join(',')}}`;
}

function quoted(text: string): string {
  return `"${text.replaceAll(/["\\]/g, '\\$&')}"`;
}
