import { hash } from 'node:crypto';
import type { Connection, Submittable } from 'pg';

/** A row's columns as PostgreSQL wrote them. */
export type TextRow = readonly (string | null)[];

export interface Statement {
  readonly sql: string;
  /** As PostgreSQL reads them, arrays as {@link arrayLiteral} writes them. */
  readonly values: (string | null)[];
}

const names = new Map<string, string>();

/** Depends on the text alone, so that in a session that a pooler gives to several processes none can run another's plan. */
export function statementName({ sql }: Pick<Statement, 'sql'>): string {
  let name = names.get(sql);
  if (name === undefined) names.set(sql, (name = `inventory_${hash('sha256', sql).slice(0, 32)}`));
  return name;
}

/** The names that each connection has prepared. Where a statement fails, the pool drops its connection. */
const prepared = new WeakMap<Connection, Set<string>>();

/**
 * One run of a named statement, which yields its rows as text: what the driver's documentation calls a submittable. The
 * driver's own query has every result described and parsed anew, which costs more than the rest of a short round trip.
 */
export class StatementRun<Row extends TextRow> implements Submittable {
  readonly rows: Row[] = [];
  /** Whether PostgreSQL may have got any of it. */
  isSent = false;
  /** The driver's: called once, at the end. */
  declare callback: (error: Error | null, run?: unknown) => void;

  constructor(private readonly statement: Statement) {}

  /** @returns why nothing could be sent, as the driver wants to know it */
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
