import { TLS_PARAMETERS, tlsOptions } from './tls.ts';

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
/** Of libpq, Prisma and the driver: accepted and ignored. */
const HARMLESS = [
  ...['application_name', 'fallback_application_name', 'client_encoding', 'connect_timeout', 'tcp_user_timeout'],
  ...['keepalives', 'keepalives_idle', 'keepalives_interval', 'keepalives_count', 'target_session_attrs'],
  ...['load_balance_hosts', 'connection_limit', 'pool_timeout', 'socket_timeout', 'pgbouncer', 'statement_cache_size'],
  ...['uselibpqcompat', 'gssencmode=disable', 'gssencmode=prefer', 'sslcertmode=allow', 'sslcompression=0', 'sslsni=1'],
  ...['ssl_min_protocol_version=TLSv1.2', 'ssl_max_protocol_version=TLSv1.3', 'min_protocol_version=3.0'],
];
const isHarmless = (name: string, value: string) => HARMLESS.includes(name) || HARMLESS.includes(`${name}=${value}`);

/** Variables by which libpq would connect more safely, or to another server. They are not read. */
const DEMANDING = /^PG(SSL|REQUIRE|CHANNELBINDING|GSSENC|HOSTADDR|SERVICE)/;
type Environment = Readonly<Record<string, string | undefined>>;

function unreadable(part: string): never {
  throw new Error(`must be ${FORM}, but its ${part} is not readable`);
}

function mustEncode(part: string): never {
  const codes = '@ as %40, : as %3A, / as %2F, ? as %3F, # as %23, % as %25, a blank as %20';
  throw new Error(`has a character in its ${part} that must be percent-encoded: write ${codes}`);
}

/**
 * @returns the address, as `new URL` can read it. An address with an sslmode says all that counts, whatever the
 *   environment says.
 * @throws saying what is wrong, in words that follow the setting's name and have nothing of the value but a parameter's
 *   name
 */
export function postgresUrl(text: string, environment: Environment = {}): string {
  const address = readAddress(text.trimEnd()); // a secret store or a file may have added a line break
  const { searchParams } = new URL(address);
  checkParameters(searchParams);
  const variables = Object.keys(environment).filter((name) => DEMANDING.test(name) && environment[name]);
  if (variables.length > 0 && !searchParams.has('sslmode')) {
    const names = new Intl.ListFormat('en').format(variables);
    throw new Error(
      `must say how to connect, because the service does not read ${names}; write it into DATABASE_URL, with an sslmode`,
    );
  }
  tlsOptions(address);
  return address;
}

function readAddress(text: string): string {
  if (text === '') throw new Error(`must be ${FORM}, but is empty`);
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

function checkParameters(searchParams: URLSearchParams): void {
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
