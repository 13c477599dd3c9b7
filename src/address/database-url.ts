// `.ts` and not `.js`: the programs of dev/ run this file from its source, where there is no `.js`.
import { TLS_PARAMETERS, tlsOptions } from './tls.ts';

const EXAMPLE = 'postgresql://user:password@host:5432/database';
const ONE_HOST = 'must name one host; put a proxy or a DNS name before several';
const LAST_PORT = 65_535;
const PORT = `must name a port up to ${LAST_PORT}`;
const ENCODE =
  'must have these percent-encoded in its user and password: @ is %40, : is %3A, / is %2F, ? is %3F, # is %23, % is %25';

/** User and password, up to the last @; a host; a port; database and parameters. */
const ADDRESS = /^postgres(?:ql)?:\/\/(?:([^/?#]*)@)?([^/?#@]*?)(?::(\d*))?([/?][^@#]*)?$/i;

/** What people write instead, and what to do. The first that matches is told. */
const MISTAKES: readonly (readonly [RegExp, string])[] = [
  [/^$/, `is empty; write an address such as ${EXAMPLE}`],
  [/^(?:\uFEFF|ï»¿)/, 'begins with a byte order mark; save its file as UTF-8 without one'],
  [/^\s/, 'has a blank or a line break before the address; remove it'],
  [/^["'`“”‘’«]|^[^"'`“”‘’«]*["'`“”‘’»]$/, 'has quotes round it; remove them (--env-file of docker keeps quotes)'],
  [
    /^(?:(?:export|set|setx|env|-e|--env)\s+)?\$?(?:env:)?DATABASE_URL\s*[=:\s]/i,
    'has its own name in the value; leave out "DATABASE_URL="',
  ],
  [/^psql\s/i, 'begins with "psql"; leave that and the quotes out'],
  [/^jdbc:/i, `begins with "jdbc:"; leave that out, and write user and password before the host: ${EXAMPLE}`],
  [/^[^/]*[=:\s]["'`]?postgres(?:ql)?:\/\//i, 'has something before "postgresql://"; remove it'],
  [/^\s*[\w ]+\s*=/, `is a list like "host=… dbname=…"; write it as an address: ${EXAMPLE}`],
  [/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]|%00/u, 'has a line break, a tab or an invisible character in it; remove it'],
  [/\s#[^@]*$/, 'has a comment after the address; remove it'],
  [/[;,]$/, 'ends with ; or ,; remove that'],
  [/[?&](?:user|password)=[^&]*\+/, 'has a + in its parameter user or password; write %2B for + and %20 for a blank'],
  [/^postgres(?:ql)?:(?!\/\/)/i, `must have two slashes after its scheme: ${EXAMPLE}`],
  [
    /^(?!postgres(?:ql)?:)[a-z][a-z\d+.-]*:\/\//i,
    `is the address of something else; it must begin with "postgresql://"`,
  ],
  [/^(?!postgres(?:ql)?:)/i, `must begin with "postgresql://": ${EXAMPLE}`],
  [
    /\$\{\w+\}|\$\(\w+\)|\{\{.*\}\}|\[YOUR-PASSWORD\]|<(?:your[-_ ]?)?(?:password|user(?:name)?|host(?:name)?|database|db|port)>/i,
    'has a placeholder in it, such as ${NAME} or <password>; put the value there (a password has %24 for $, %3C for <, %7B for {)',
  ],
];

/** Parameters that promise security, or another server. Neither the driver nor this service keeps such a promise. */
const PROMISES =
  /ssl|tls|auth|gss|krb|kerberos|sspi|channel|binding|peer|cert|crl|scram|encrypt|secur|verify|trust|passfile|password|service|hostaddr|dbname|minprotocol|^ca$/;
const SUPPORTED: readonly string[] = [...TLS_PARAMETERS, 'channel_binding', 'password'];
/** Values that promise nothing, or what holds anyway: Node.js speaks TLS 1.2 or later, and the driver speaks no GSSAPI. */
const HARMLESS: Readonly<Record<string, RegExp>> = {
  gssencmode: /^(?:disable|prefer)$/,
  min_protocol_version: /^3\.0$/,
  sslcertmode: /^allow$/,
  sslcompression: /^0$/,
  sslsni: /^1$/,
  ssl_max_protocol_version: /^TLSv1\.3$/,
  ssl_min_protocol_version: /^TLSv1(?:\.[12])?$/,
};
const isHarmless = (name: string, value: string) => HARMLESS[name]?.test(value) ?? false;

/** By variable of libpq: its parameter, and the connections for which it counts. Without an sslmode, libpq verifies no TLS. */
const ENVIRONMENT: Readonly<Record<string, readonly [string, 'all' | 'TLS' | 'TCP' | 'socket']>> = {
  PGSSLROOTCERT: ['sslrootcert', 'TLS'],
  PGSSLCERT: ['sslcert', 'TLS'],
  PGSSLKEY: ['sslkey', 'TLS'],
  PGSSLCRL: ['sslcrl', 'TLS'],
  PGSSLCRLDIR: ['sslcrldir', 'TLS'],
  PGSSLMINPROTOCOLVERSION: ['ssl_min_protocol_version', 'TLS'],
  PGSSLMAXPROTOCOLVERSION: ['ssl_max_protocol_version', 'TLS'],
  PGSSLSNI: ['sslsni', 'TLS'],
  PGSSLCERTMODE: ['sslcertmode', 'TCP'],
  PGSSLNEGOTIATION: ['sslnegotiation', 'TCP'],
  PGGSSENCMODE: ['gssencmode', 'TCP'],
  PGREQUIREPEER: ['requirepeer', 'socket'],
  PGCHANNELBINDING: ['channel_binding', 'all'],
  PGREQUIREAUTH: ['require_auth', 'all'],
  PGMINPROTOCOLVERSION: ['min_protocol_version', 'all'],
  PGHOSTADDR: ['hostaddr', 'all'],
  PGSERVICE: ['service', 'all'],
};

/** All that {@link withEnvironment} reads. */
export const LIBPQ_VARIABLES: readonly string[] = [
  'PGHOST',
  'PGPORT',
  'PGSSLMODE',
  'PGREQUIRESSL',
  ...Object.keys(ENVIRONMENT),
];

/**
 * As with libpq, its variables count where the address says nothing, and an empty one counts as none.
 *
 * @param refuse is given a message for each variable that cannot be kept
 * @returns the address with what they say, and the names of those that count
 */
export function withEnvironment(
  address: string,
  source: Readonly<Record<string, string | undefined>>,
  refuse: (message: string) => void,
): { address: string; variables: string[] } {
  const variables: string[] = [];
  const [, , host, port, rest = ''] = ADDRESS.exec(address) ?? [];
  const url = host === '' ? `postgresql://${rest}` : address;
  if (!URL.canParse(url)) return { address, variables };
  const { hostname, searchParams } = new URL(url);
  const parameters = new Map(searchParams);
  const given = new URLSearchParams();
  const give = (parameter: string, value: string, variable: string) => {
    given.set(parameter, value);
    variables.push(variable);
  };
  const { PGHOST, PGPORT, PGSSLMODE, PGREQUIRESSL } = source;
  if (PGHOST && !hostname && !parameters.get('host')) give('host', PGHOST, 'PGHOST');
  if (PGPORT && !port && !parameters.get('port')) give('port', PGPORT, 'PGPORT');
  if (!parameters.has('sslmode')) {
    if (PGSSLMODE) give('sslmode', PGSSLMODE, 'PGSSLMODE');
    else if (PGREQUIRESSL?.startsWith('1')) give('sslmode', 'require', 'PGREQUIRESSL');
  }

  const mode = parameters.get('sslmode') ?? given.get('sslmode');
  const hostRead = [parameters.get('host'), hostname, given.get('host')].find(Boolean) ?? '';
  const isSocket = /^(?:\/|%2f)/i.test(hostRead);
  const isRead = {
    all: true,
    TLS: !isSocket && mode !== null && mode !== 'disable',
    TCP: !isSocket,
    socket: isSocket,
  };
  for (const [name, [parameter, connections]] of Object.entries(ENVIRONMENT)) {
    const value = source[name];
    const demandsMode = !isSocket && mode === null && parameter === 'sslrootcert' && value === 'system';
    if (!value || parameters.has(parameter) || !(isRead[connections] || demandsMode)) continue;
    if (SUPPORTED.includes(parameter)) give(parameter, value, name);
    else if (!isHarmless(parameter, value)) refuse(`${name} demands what this service cannot keep; unset it`);
  }
  const added = given.size === 0 ? '' : `${address.includes('?') ? '&' : '?'}${given.toString()}`;
  return { address: address + added, variables };
}

/**
 * @returns the text itself; for `postgresql://user:password@/database`, which only libpq reads, an address that means the same
 * @throws saying which mistake it is, in words that follow the setting's name and have nothing of the value
 */
export function postgresUrl(text: string): string {
  const mistake = MISTAKES.find(([pattern]) => pattern.test(text))?.[1];
  if (mistake) throw new Error(mistake);
  const [, identity, host = '', port, rest = ''] = ADDRESS.exec(text) ?? [];
  if (text.includes('#') || !ADDRESS.test(text)) throw new Error(ENCODE);
  if (host.includes(',')) throw new Error(ONE_HOST);
  if (/^[^[]*:/.test(host))
    throw new Error(
      'has a port that is not a number, an address of IPv6 without brackets, or a password without @ and a host',
    );
  if (Number(port) > LAST_PORT) throw new Error(PORT);
  const [path = '', ...parameters] = rest.split('?');
  if (/^\s/.test(identity ?? '') || /\s/.test(host + path))
    throw new Error('has a blank in its host or database, or before its user; remove it');
  if (/[&;]\s*\w+=/.test(path + host)) throw new Error('must have ? before its first parameter, and & between them');
  if (parameters.some((part) => /;\s*\w+=|&amp;/.test(part))) throw new Error('must have & between its parameters');
  let address = text;
  try {
    decodeURIComponent(text);
  } catch {
    throw new Error(ENCODE);
  }
  try {
    if (host === '' && (identity !== undefined || port !== undefined)) address = withoutEmptyHost(rest, identity, port);
    new URL(address);
  } catch {
    throw new Error(/\[|\]/.test(host) ? 'has a host that is no address of IPv6 in brackets' : ENCODE);
  }
  refuseParameters(new URL(address));
  tlsOptions(address);
  return address;
}

function withoutEmptyHost(rest: string, identity = '', port = ''): string {
  const url = new URL(`postgresql://${rest.startsWith('/') ? '' : '/'}${rest}`);
  const [user, ...password] = identity.split(':');
  for (const [name, value] of Object.entries({ user, password: password.join(':'), port })) {
    if (value && !url.searchParams.has(name)) url.searchParams.set(name, decodeURIComponent(value));
  }
  return url.href;
}

function refuseParameters({ searchParams }: URL): void {
  for (const [name, value] of searchParams) {
    const plain = name.toLowerCase();
    const isPromise = PROMISES.test(plain.replaceAll(/[^a-z]/g, '')) || /^(?:require|verify)/i.test(value);
    if (SUPPORTED.includes(name) || isHarmless(name, value) || !isPromise) continue;
    const isTls = plain.startsWith('ssl');
    throw new Error(
      isTls && !SUPPORTED.includes(plain)
        ? `must ask for TLS by ${TLS_PARAMETERS.join(', ')}, not by ${name}`
        : `has the parameter ${name}, which this service cannot keep; remove it`,
    );
  }
  const parameters = new Map(searchParams); // of several, the last counts, as with libpq
  if (parameters.get('host')?.includes(',')) throw new Error(ONE_HOST);
  const port = parameters.get('port') ?? '';
  if (!/^\d*$/.test(port) || Number(port) > LAST_PORT) throw new Error(PORT);
  const binding = parameters.get('channel_binding');
  if (binding !== undefined && !['disable', 'prefer', 'require'].includes(binding))
    throw new Error('must have one of these as channel_binding: disable, prefer, require');
}
