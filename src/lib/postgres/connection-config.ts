import pg from 'pg';
// `.ts` and not `.js`: the programs of dev/ run this file from its source, where there is no `.js`.
import { PASSWORD_FILE, passwordReader } from './password-file.ts';
import { TLS_PARAMETERS, tlsOptions } from './tls.ts';
import { Failure } from '../../operations/error-text.ts';
import { begin } from './postgres-version.ts';

/** The statements rely on these. docs/decisions/session-settings.md says why, and what holds behind a pooler. */
const SESSION_SETTINGS = {
  default_transaction_isolation: 'read committed',
  client_min_messages: 'warning',
  idle_session_timeout: '0',
  idle_in_transaction_session_timeout: '0',
  array_nulls: 'on',
  bytea_output: 'hex',
  DateStyle: 'ISO,MDY',
  standard_conforming_strings: 'on',
  TimeZone: 'UTC',
  // PostgreSQL notices a vanished client after 25 s, not after two hours.
  tcp_keepalives_idle: '10',
  tcp_keepalives_interval: '5',
  tcp_keepalives_count: '3',
};

/** For commands: PostgreSQL raises an error where row security would hide a part of the stock or of its history. */
export const ALL_ROWS = { row_security: 'off' };

/** PostgreSQL 15 and 16 do not know the first; the second may be stricter than `on`. */
const CONDITIONAL_SETTINGS = `
  SELECT CASE WHEN current_setting('transaction_timeout', true) <> '0'
              THEN set_config('transaction_timeout', '0', false) END,
         CASE current_setting('synchronous_commit') WHEN 'off'
              THEN set_config('synchronous_commit', 'on', false) END`;

/** The routine of PostgreSQL's notice about a commit that no synchronous standby confirmed; its words may be translated. */
export const UNCONFIRMED_COMMIT = 'SyncRepWaitForLSN';

/** Makes a new connection ready before its first use. */
export type Prepare = (client: pg.ClientBase) => unknown;

const WITHOUT_BINDING =
  'the database did not use SCRAM-SHA-256-PLUS, which channel_binding=require demands; let pg_hba.conf and the role use scram-sha-256, connect without a pooler, or remove channel_binding';

interface OwnConfig extends pg.ClientConfig {
  readonly passwordFrom?: (() => string) | undefined;
  readonly isBound?: boolean;
}

class Client extends pg.Client {
  /** Whether the last exchange has proved that the server is the one at the end of this TLS connection. */
  isBound = false;

  constructor(config?: string | OwnConfig) {
    super(config);
    const { connection } = this;
    connection.once('error', () => cut(this)); // the driver leaves a connection open after an error of its own
    const { passwordFrom, isBound: mustBeBound } = (config ?? {}) as OwnConfig;
    if (passwordFrom) (this as unknown as { password: unknown }).password = passwordFrom;
    // We listen first (the driver adds its listeners in `connect`), so a server that is refused gets no password.
    let isOffered = false;
    const refuse = () => mustBeBound && connection.emit('error', new Failure(WITHOUT_BINDING));
    connection.on('authenticationCleartextPassword', refuse).on('authenticationMD5Password', refuse);
    connection.on('authenticationSASL', ({ mechanisms }: { mechanisms: string[] }) => {
      isOffered = mechanisms.includes('SCRAM-SHA-256-PLUS');
      this.isBound = false;
      if (!isOffered) refuse();
    });
    connection.on('authenticationSASLFinal', () => (this.isBound = isOffered));
  }
}

/** The types of a pool do not say that it waits for `onConnect`. */
type ConnectionConfig = Omit<pg.PoolConfig, 'onConnect'> & { onConnect(client: pg.ClientBase): Promise<void> };

/** How every program of this project connects to PostgreSQL. The settings override {@link SESSION_SETTINGS}. */
export function connectionConfig(
  databaseUrl: string,
  name: string,
  bounds: pg.PoolConfig,
  prepare?: Prepare,
  settings: Readonly<Record<string, string>> = {},
): ConnectionConfig {
  const url = new URL(databaseUrl);
  const parameters = new Map(url.searchParams); // of several, the last counts, as with libpq
  // Without values for these two, the driver would read the environment.
  const ssl = tlsOptions(databaseUrl);
  const sslnegotiation =
    ssl && parameters.get('sslnegotiation') === 'direct' ? ('direct' as const) : ('postgres' as const);
  // The driver would send these two as startup parameters, which a pooler refuses.
  const { statement_timeout, lock_timeout, ...boundsOfDriver } = bounds;
  const identity = { application_name: `inventory ${name}`, ssl, sslnegotiation };
  const file = parameters.get(PASSWORD_FILE);
  const binding = parameters.get('channel_binding');
  const authentication = {
    ...(file !== undefined && { passwordFrom: passwordReader(file) }),
    ...(ssl !== false && { enableChannelBinding: binding === 'require' || binding === 'prefer' }),
    ...(binding === 'require' && { isBound: true }),
  };
  const own = {
    ...identity,
    ...authentication,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    ...boundsOfDriver,
  };
  const all = {
    statement_timeout: String(Number(statement_timeout ?? 0)), // first, because the role's own holds until then
    lock_timeout: String(lock_timeout ?? 0),
    ...SESSION_SETTINGS,
    search_path: schemaOf(databaseUrl),
    ...settings,
  };
  // The driver prefers what it finds in the URL.
  for (const option of [...Object.keys(own), 'statement_timeout', 'lock_timeout', PASSWORD_FILE, ...TLS_PARAMETERS]) {
    url.searchParams.delete(option);
  }
  const sets = Object.entries(all).map(([setting, value]) => `SET ${setting} = ${pg.escapeLiteral(value)}`);
  const firstStatement = [...sets, CONDITIONAL_SETTINGS].join(';');
  const onConnect = async (client: pg.ClientBase): Promise<void> => {
    try {
      if (binding === 'require' && !(client as Client).isBound) throw new Failure(WITHOUT_BINDING);
      await begin(client, firstStatement);
      await prepare?.(client);
    } catch (error) {
      cut(client); // an orderly end could wait for ever
      throw error;
    }
  };
  return { Client, connectionString: url.href, ...own, onConnect };
}

export function schemaOf(databaseUrl: string): string {
  const schema = new URL(databaseUrl).searchParams.get('schema') ?? '';
  return schema === '' ? 'public' : schema;
}

/** The schema for Prisma, which puts it between double quotes as it is. */
export function schemaForPrisma(databaseUrl: string): string {
  return schemaOf(databaseUrl).replaceAll('"', '""');
}

/** A connection outside of any pool. */
export async function openConnection(config: ConnectionConfig): Promise<pg.Client> {
  const client = new Client(config);
  client.on('error', () => undefined); // the statement under way is rejected with the same error
  await client.connect();
  await config.onConnect(client);
  return client;
}

export function cut(client: pg.ClientBase): void {
  (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
}
