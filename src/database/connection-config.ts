import pg from 'pg';
// `.ts` and not `.js`: the programs of dev/ run this file from its source, where there is no `.js`.
import { TLS_PARAMETERS, tlsOptions } from './tls.ts';

/**
 * What the statements rely on, whatever `postgresql.conf`, the database or the role say. docs/decisions/session-settings.md
 * has why each is here and why others are not, and what becomes of them behind a pooler.
 */
export const SESSION_SETTINGS = {
  default_transaction_isolation: 'read committed',
  client_min_messages: 'warning',
  idle_session_timeout: '0',
  array_nulls: 'on',
  bytea_output: 'hex',
  client_encoding: 'UTF8',
  DateStyle: 'ISO,MDY',
  standard_conforming_strings: 'on',
  TimeZone: 'UTC',
  // A client that is gone without a word is found out after 25 s, not after two hours.
  tcp_keepalives_idle: '10',
  tcp_keepalives_interval: '5',
  tcp_keepalives_count: '3',
};

/** PostgreSQL 15 and 16 do not know the first, and the second depends on what it is. */
const CONDITIONAL_SETTINGS = `
  SELECT CASE WHEN current_setting('transaction_timeout', true) <> '0'
              THEN set_config('transaction_timeout', '0', false) END,
         CASE current_setting('synchronous_commit') WHEN 'off'
              THEN set_config('synchronous_commit', 'on', false) END`;

/**
 * The function of PostgreSQL that tells, by a notice, of a commit that did not wait for its synchronous standby. Its words
 * depend on the server's language.
 */
export const UNCONFIRMED_COMMIT = 'SyncRepWaitForLSN';

/** How a new connection is made ready before anything else uses it. */
export type Prepare = (client: pg.ClientBase) => Promise<unknown>;

/** The driver leaves a connection open where this side cannot go on with it, as without a password. */
class Client extends pg.Client {
  constructor(config?: string | pg.ClientConfig) {
    super(config);
    this.connection.once('error', () => cut(this));
  }
}

/** For a client or a pool, which waits for `onConnect` though its types do not say so. */
type ConnectionConfig = Omit<pg.PoolConfig, 'onConnect'> & { onConnect(client: pg.ClientBase): Promise<void> };

/**
 * How every program of this project connects to PostgreSQL.
 *
 * @param name follows `inventory` in `application_name`
 * @param bounds on what it waits for, in milliseconds
 * @param settings beside {@link SESSION_SETTINGS}, or instead of some of them
 */
export function connectionConfig(
  databaseUrl: string,
  name: string,
  bounds: pg.PoolConfig,
  settings: Readonly<Record<string, string>> = {},
  prepare?: Prepare,
): ConnectionConfig {
  const url = new URL(databaseUrl);
  const ssl = tlsOptions(databaseUrl); // always told, or the driver would look into the environment
  // The driver would send these two as startup parameters, which a pooler refuses.
  const { statement_timeout, lock_timeout, ...boundsOfDriver } = bounds;
  const own = {
    application_name: `inventory ${name}`,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    ssl,
    ...boundsOfDriver,
  };
  const all = {
    statement_timeout: String(Number(statement_timeout ?? 0)), // first of all, because the one of the role holds until then
    lock_timeout: String(lock_timeout ?? 0),
    ...SESSION_SETTINGS,
    search_path: schemaOf(databaseUrl),
    ...settings,
  };
  // What the driver finds in the URL counts more for it than what it is told here.
  for (const option of [...Object.keys(own), 'statement_timeout', 'lock_timeout', ...TLS_PARAMETERS]) {
    url.searchParams.delete(option);
  }
  const sets = Object.entries(all).map(([setting, value]) => `SET ${setting} = ${pg.escapeLiteral(value)}`);
  const firstStatement = [...sets, CONDITIONAL_SETTINGS].join(';');
  const onConnect = async (client: pg.ClientBase): Promise<void> => {
    try {
      await client.query(firstStatement);
      await prepare?.(client);
    } catch (error) {
      cut(client); // an orderly end could wait for ever
      throw error;
    }
  };
  return { Client, connectionString: url.href, ...own, onConnect };
}

/** Where the tables are. */
export function schemaOf(databaseUrl: string): string {
  return new URL(databaseUrl).searchParams.get('schema') ?? 'public';
}

/** A connection outside of any pool. */
export async function openConnection(config: ConnectionConfig): Promise<pg.Client> {
  const client = new Client(config);
  client.on('error', () => undefined); // the statement under way is rejected with the same error
  await client.connect();
  await config.onConnect(client);
  return client;
}

/** Ends a connection at once, whatever it is doing. */
export function cut(client: pg.ClientBase): void {
  (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
}
