import { hash } from 'node:crypto';
import type { Connection, PoolClient, Submittable } from 'pg';
import type { Settings } from '../settings.js';
import type { Prepare } from './connection-config.js';
import { ConnectionPool } from './connection-pool.js';
import { NotApplied, UnconfirmedCommit, failureOf, isProgramFault } from './database-failure.js';
import { boundsOfRequest } from './deadline.js';

/** A row's columns as PostgreSQL wrote them. */
export type TextRow = readonly (string | null)[];

export interface Statement {
  readonly sql: string;
  /** As PostgreSQL reads them, arrays as {@link arrayLiteral} writes them. */
  readonly values: (string | null)[];
  /** Whether it may have no row although PostgreSQL read it in time. Otherwise, no row means: read too late, and nothing done. */
  readonly mayBeEmpty?: boolean;
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
  readonly beganAt = performance.now();
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

/** How long a session stays checked out: the pool renews its sessions only when they come back. */
const CHECKED_OUT_MS = 60_000;

/** A statement without an answer is given up at most so long after its time-out. */
const SWEEP_INTERVAL_MS = 50;

/** The driver would set a timer for each statement. An interval costs less. */
function setNoTimers(client: PoolClient): void {
  (client as unknown as { connectionParameters: { query_timeout: number } }).connectionParameters.query_timeout = 0;
}

/** One database connection for one hot statement at a time. It connects when first used, and again after a failure. */
export class StatementConnection {
  readonly #pool: ConnectionPool;
  /** The session, checked out and idle: to take it from the pool for each statement would cost more. */
  #idle: PoolClient | undefined;
  #isDue = false;
  #due: NodeJS.Timeout | undefined;
  readonly #queryTimeoutMs: number;
  #underWay: Pick<StatementRun<TextRow>, 'beganAt' | 'callback'> | undefined;
  #sweeper: NodeJS.Timeout | undefined;

  constructor(settings: Settings, name: string, prepare?: Prepare) {
    this.#queryTimeoutMs = boundsOfRequest(settings.REQUEST_DEADLINE_MS).query_timeout;
    this.#pool = new ConnectionPool(settings, name, 1, prepare);
    this.#pool.on('connect', (client) => {
      setNoTimers(client);
      client.on('error', () => this.#drop(client));
      client.on('end', () => this.#drop(client));
    });
  }

  /** Connects if needed, so that the next statement is sent at once. */
  open(): Promise<void> | undefined {
    return this.#idle ? undefined : this.#connect().then((client) => this.#putBack(client));
  }

  /** @throws NotApplied when it was not sent or read too late, else what the driver failed with */
  async run<Row extends TextRow>(statement: Statement): Promise<Row[]> {
    const client = this.#idle ?? (await this.#connect());
    this.#idle = undefined;
    const unconfirmedBefore = this.#pool.unconfirmedCommits;
    const run = (this.#underWay = new StatementRun<Row>(statement));
    this.#sweeper ??= setInterval(() => this.#sweep(), SWEEP_INTERVAL_MS).unref();
    try {
      await new Promise<void>((resolve, reject) => {
        run.callback = (error) => (error ? reject(error) : resolve());
        client.query(run);
      });
    } catch (error) {
      client.release(failureOf(error).outcome !== 'refused');
      throw run.isSent ? error : notSent(error);
    } finally {
      this.#underWay = undefined;
    }
    if (run.rows.length === 0 && !statement.mayBeEmpty) {
      client.release(true); // the database's clock may have been set: a new session looks at it again
      throw new NotApplied('the database read the statement after its deadline');
    }
    this.#putBack(client);
    if (this.#pool.unconfirmedCommits > unconfirmedBefore) throw new UnconfirmedCommit();
    return run.rows;
  }

  async close(): Promise<void> {
    clearTimeout(this.#due);
    if (this.#idle) this.#drop(this.#idle);
    await this.#pool.end();
  }

  async #connect(): Promise<PoolClient> {
    try {
      const client = await this.#pool.connect();
      this.#isDue = false;
      clearTimeout(this.#due);
      this.#due = setTimeout(() => this.#callBack(), CHECKED_OUT_MS).unref();
      return client;
    } catch (error) {
      throw notSent(error);
    }
  }

  #callBack(): void {
    this.#isDue = true;
    if (this.#idle) this.#putBack(this.#idle);
  }

  #sweep(): void {
    if (!this.#underWay) {
      clearInterval(this.#sweeper);
      this.#sweeper = undefined;
    } else if (performance.now() >= this.#underWay.beganAt + this.#queryTimeoutMs) {
      this.#underWay.callback(new Error('Query read timeout'));
    }
  }

  #drop(client: PoolClient): void {
    if (client !== this.#idle) return;
    this.#idle = undefined;
    client.release(true);
  }

  /** Another statement may wait for the session in the pool. */
  #putBack(client: PoolClient): void {
    const isWanted = this.#isDue || this.#pool.waitingCount > 0 || this.#pool.ending;
    this.#idle = isWanted ? undefined : client;
    if (isWanted) client.release();
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
