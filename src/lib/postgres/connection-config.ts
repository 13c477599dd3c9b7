import { userInfo } from 'node:os';
import pg from 'pg';
import { PASSWORD_FILE, passwordReader } from './password-file.ts';
import { filled, hostOf, tlsOptions } from './tls.ts';
import { Failure } from './outcomes.ts';
import { startSession } from './postgres-version.ts';

/** The statements rely on these. docs/decisions/session-settings.md says why, and what holds behind a pooler. */
export const SESSION_SETTINGS = {
  default_transaction_isolation: 'read committed',
  client_min_messages: 'warning',
  idle_session_timeout: '0',
  idle_in_transaction_session_timeout: '0',
  array_nulls: 'on',
  DateStyle: 'ISO,MDY',
  standard_conforming_strings: 'on',
  TimeZone: 'UTC',
  // PostgreSQL notices a vanished client after 25 s, not after two hours.
  tcp_keepalives_idle: '10',
  tcp_keepalives_interval: '5',
  tcp_keepalives_count: '3',
};

/** PostgreSQL raises an error where row security would hide rows. */
export const ALL_ROWS = { row_security: 'off' };

/** PostgreSQL 15 and 16 do not know the first; the second may be stricter than `on`. `local` waits for no standby. */
const CONDITIONAL_SETTINGS = `
  SELECT CASE WHEN current_setting('transaction_timeout', true) <> '0'
              THEN set_config('transaction_timeout', '0', false) END,
         CASE WHEN current_setting('synchronous_commit') IN ('off', 'local')
              THEN set_config('synchronous_commit', 'on', false) END`;

/**
 * The routine of PostgreSQL's notice about a commit that no synchronous standby confirmed; its words may be translated.
 */
export const UNCONFIRMED_COMMIT = 'SyncRepWaitForLSN';

/** Makes a new connection ready before its first use. */
export type Prepare = (client: pg.ClientBase) => unknown;

const WITHOUT_BINDING =
  'the database did not use SCRAM-SHA-256-PLUS, which channel_binding=require demands; let pg_hba.conf and the role use scram-sha-256, connect without a pooler, or remove channel_binding';

interface OwnConfig extends pg.ClientConfig {
  readonly isBound?: boolean;
}

class Client extends pg.Client {
  /** Whether the last exchange has proved that the server is the one at the end of this TLS connection. */
  isBound = false;

  constructor(config?: string | OwnConfig) {
    super(config);
    const { connection } = this;
    connection.once('error', () => cut(this)); // the driver leaves a connection open after an error of its own
    const { options, isBound: mustBeBound } = (config ?? {}) as OwnConfig;
    // The driver may have read these from the environment. Given a value, it would send them, and a pooler refuses
    // them.
    const { connectionParameters } = this as unknown as { connectionParameters: object };
    Object.assign(connectionParameters, { options, replication: undefined });
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

/**
 * How every session connects.
 *
 * @param settings override {@link SESSION_SETTINGS}; `null`: nothing is set that the session would keep, because behind a
 *   pooler others get it next
 */
export function connectionConfig(
  databaseUrl: string,
  applicationName: string,
  bounds: pg.PoolConfig,
  prepare?: Prepare,
  settings: Readonly<Record<string, string>> | null = {},
): ConnectionConfig {
  const url = new URL(databaseUrl);
  const parameters = new Map(url.searchParams); // of several, the last counts, as with libpq
  const ssl = tlsOptions(databaseUrl);
  const sslnegotiation =
    ssl && parameters.get('sslnegotiation') === 'direct' ? ('direct' as const) : ('postgres' as const);
  // The driver would send these two as startup parameters, which a pooler refuses.
  const { statement_timeout, lock_timeout, ...boundsOfDriver } = bounds;
  const identity = { application_name: applicationName, ssl, sslnegotiation };
  const binding = parameters.get('channel_binding');
  const authentication = {
    ...(ssl !== false && { enableChannelBinding: binding === 'require' || binding === 'prefer' }),
    ...(binding === 'require' && { isBound: true }),
  };
  const all = {
    statement_timeout: String(Number(statement_timeout ?? 0)), // first, because the role's own holds until then
    lock_timeout: String(lock_timeout ?? 0),
    ...SESSION_SETTINGS,
    search_path: schemaOf(databaseUrl),
    ...settings,
  };
  const sets = Object.entries(all).map(([setting, value]) => `SET ${setting} = ${pg.escapeLiteral(value)}`);
  const firstStatement = settings === null ? 'SELECT' : [...sets, CONDITIONAL_SETTINGS].join(';');
  const onConnect = async (client: pg.ClientBase): Promise<void> => {
    try {
      if (binding === 'require' && !(client as Client).isBound) throw new Failure(WITHOUT_BINDING);
      await startSession(client, firstStatement);
      await prepare?.(client);
    } catch (error) {
      cut(client); // an orderly end could wait for ever
      throw error;
    }
  };
  const keepAlive = { keepAlive: true, keepAliveInitialDelayMillis: 10_000 };
  return { Client, ...serverOf(url), ...identity, ...authentication, ...keepAlive, ...boundsOfDriver, onConnect };
}

/** The driver reads from the environment what is missing or empty here. We want that only for the password. */
function serverOf(url: URL): pg.ClientConfig {
  const { user: name, password, port, options, [PASSWORD_FILE]: file } = Object.fromEntries(url.searchParams);
  const user = filled(name, decodeURIComponent(url.username)) || accountName();
  return {
    user,
    password: file === undefined ? filled(password, decodeURIComponent(url.password)) : passwordReader(file),
    host: hostOf(url),
    port: Number(filled(port, url.port, '5432')),
    database: decodeURIComponent(url.pathname.slice(1)) || user,
    options,
  };
}

/** The default user, as with libpq. */
function accountName(): string {
  try {
    return userInfo().username;
  } catch (cause) {
    throw new Failure('DATABASE_URL must name a user, because the account of this process has no name', { cause });
  }
}

export function schemaOf(databaseUrl: string): string {
  return filled(new Map(new URL(databaseUrl).searchParams).get('schema'), 'public');
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
