// `.ts` and not `.js`: the programs of dev/ run this file from its source, where there is no `.js`.
import { kindOfText, mustBe } from '../http/value-kinds.ts';
import { TLS_FILES, TLS_PARAMETERS, tlsOptions } from './tls.ts';

/** User and password, up to the last @; host; port; database; parameters. */
const ADDRESS = /^postgres(?:ql)?:\/\/(?:(.*)@)?(\[[^\]]*\]|[^:/?]*)(?::([^/?]*))?(?:\/([^?]*))?(?:\?(.*))?$/is;
const FORM = 'the address of one PostgreSQL server, such as postgresql://user:password@host:5432/database';
const HOST = /^(?:\[[\da-f:.]+\]|(?:[\p{L}\p{N}._~-]|%[\da-f]{2})*)$/iu;
const LAST_PORT = 65_535;
const isPort = (text: string) => /^(?!0+$)\d*$/.test(text) && Number(text) <= LAST_PORT;

/** Characters that end a part for one reader and belong to it for another. */
const AMBIGUOUS: Readonly<Record<string, RegExp>> = {
  user: /[\s/?#]/,
  password: /[/?#]/,
  database: /[\s#&;='"]/,
  parameter: /[#;]|(?:^|&)(?:user|password)=[^&]*\+/, // a + in other values is a blank, as other programs write it
};
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;

const HONOURED = [...TLS_PARAMETERS, 'user', 'password', 'host', 'port', 'schema', 'options'];
/** Of libpq, Prisma and the driver: they promise nothing that this service does not keep. */
const HARMLESS = [
  ...['application_name', 'fallback_application_name', 'client_encoding', 'connect_timeout', 'tcp_user_timeout'],
  ...['keepalives', 'keepalives_idle', 'keepalives_interval', 'keepalives_count', 'target_session_attrs'],
  ...['load_balance_hosts', 'connection_limit', 'pool_timeout', 'socket_timeout', 'pgbouncer', 'statement_cache_size'],
  ...['uselibpqcompat', 'gssencmode=disable', 'gssencmode=prefer', 'sslcertmode=allow', 'sslcompression=0', 'sslsni=1'],
  ...['ssl_min_protocol_version=TLSv1.2', 'ssl_max_protocol_version=TLSv1.3', 'min_protocol_version=3.0'],
];
const isHarmless = (name: string, value: string) => HARMLESS.includes(name) || HARMLESS.includes(`${name}=${value}`);

/** Variables of libpq, each with its parameter. PGREQUIRESSL=1 is sslmode=require. */
const VARIABLES = {
  PGHOST: 'host',
  PGPORT: 'port',
  PGSSLMODE: 'sslmode',
  PGREQUIRESSL: 'sslmode',
  PGCHANNELBINDING: 'channel_binding',
  PGSSLNEGOTIATION: 'sslnegotiation',
  PGSSLROOTCERT: 'sslrootcert',
  PGSSLCERT: 'sslcert',
  PGSSLKEY: 'sslkey',
};
/** They demand what this service cannot keep. */
const UNSUPPORTED_VARIABLES = {
  PGGSSENCMODE: 'gssencmode',
  PGHOSTADDR: 'hostaddr',
  PGMINPROTOCOLVERSION: 'min_protocol_version',
  PGREQUIREAUTH: 'require_auth',
  PGREQUIREPEER: 'requirepeer',
  PGSERVICE: 'service',
  PGSSLCERTMODE: 'sslcertmode',
  PGSSLCRL: 'sslcrl',
  PGSSLCRLDIR: 'sslcrldir',
  PGSSLMAXPROTOCOLVERSION: 'ssl_max_protocol_version',
  PGSSLMINPROTOCOLVERSION: 'ssl_min_protocol_version',
  PGSSLSNI: 'sslsni',
};
type Environment = Readonly<Record<string, string | undefined>>;

function unreadable(part: string): never {
  throw new Error(mustBe(FORM, 'not readable', `its ${part} is`));
}

function mustEncode(part: string): never {
  const codes = '@ as %40, : as %3A, / as %2F, ? as %3F, # as %23, % as %25, a blank as %20';
  throw new Error(`has a character in its ${part} that must be percent-encoded: write ${codes}`);
}

/**
 * As with libpq, a variable of the environment counts where the address has no such parameter, and an empty one counts as none.
 *
 * @returns the address with what the environment says, as `new URL` and the driver can read it
 * @throws saying what is wrong, in words that follow the setting's name and have nothing of the value but a parameter's name
 */
export function postgresUrl(text: string, environment: Environment = {}): string {
  const address = readAddress(text.trimEnd()); // a secret store or a file may have added a line break
  const { variables, given } = fromEnvironment(new URL(address), environment);
  const url = variables.length === 0 ? address : `${address}${address.includes('?') ? '&' : '?'}${given.toString()}`;
  try {
    checkParameters(new URL(url));
    tlsOptions(url);
  } catch (error) {
    if (variables.length === 0) throw error;
    const { message, cause } = error as Error;
    throw new Error(`with ${new Intl.ListFormat('en').format(variables)} ${message}`, { cause });
  }
  return url;
}

function readAddress(text: string): string {
  if (text === '') throw new Error(mustBe(FORM, kindOfText(text)));
  const [, identity, host = '', port = '', database = '', parameter = ''] =
    ADDRESS.exec(text) ?? unreadable('beginning');
  const [user = '', ...others] = (identity ?? '').split(':');
  const password = others.join(':');
  if (!HOST.test(host)) unreadable('host');
  if (!isPort(port)) unreadable('port');
  for (const [part, value] of Object.entries({ user, password, host, port, database, parameter })) {
    if (value.includes('%00')) unreadable(part);
    try {
      decodeURIComponent(value);
    } catch {
      mustEncode(part);
    }
    if (INVISIBLE.test(value) || AMBIGUOUS[part]?.test(value)) mustEncode(part);
  }
  if (parameter.split('&').some((pair) => pair !== '' && !pair.includes('='))) unreadable('parameter');
  if (host !== '' || (identity === undefined && port === '')) return URL.canParse(text) ? text : unreadable('host');

  const url = new URL(`postgresql:///${database}?${parameter}`); // without a host, `new URL` takes no user and no port
  for (const [name, value] of Object.entries({ user, password, port }))
    if (value && !url.searchParams.has(name)) url.searchParams.set(name, decodeURIComponent(value));
  return url.href;
}

function fromEnvironment({ hostname, port, searchParams }: URL, environment: Environment) {
  const all = [...Object.entries({ host: hostname, port }), ...searchParams]; // of several, the last counts, as with libpq
  const parameters = new Map(all.filter(([name, value]) => value !== '' || !['host', 'port'].includes(name)));
  for (const [name, parameter] of Object.entries(UNSUPPORTED_VARIABLES)) {
    const value = environment[name];
    if (value && !parameters.has(parameter) && !isHarmless(parameter, value))
      throw new Error(`must not be used with ${name}, which this service does not support; unset it`);
  }
  const variables: string[] = [];
  const given = new URLSearchParams();
  for (const [name, parameter] of Object.entries(VARIABLES)) {
    let value = environment[name];
    if (name === 'PGREQUIRESSL') value = value?.startsWith('1') ? 'require' : '';
    if (!value || parameters.has(parameter)) continue;
    // Without an sslmode, libpq reads a file only if it is told to verify by it.
    const isWithoutTls = ['disable', undefined].includes(parameters.get('sslmode'));
    if (TLS_FILES.includes(parameter) && isWithoutTls && value !== 'system') continue;
    parameters.set(parameter, value);
    given.set(parameter, value);
    variables.push(name);
  }
  return { variables, given };
}

function checkParameters({ searchParams }: URL): void {
  for (const [name, value] of searchParams) {
    if (HONOURED.includes(name) || isHarmless(name, value)) continue;
    if (searchParams.has('password')) mustEncode('parameter'); // the name may be a part of it
    throw new Error(
      `has the parameter ${name}, which this service does not support; remove it (TLS is asked for by sslmode)`,
    );
  }
  const { host = '', port = '' } = Object.fromEntries(searchParams);
  if (host.includes(',')) unreadable('host');
  if (!isPort(port)) unreadable('port');
}
