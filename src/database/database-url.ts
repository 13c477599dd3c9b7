import { TLS_PARAMETERS, tlsOptions } from './tls.ts';

const EXAMPLE = 'postgresql://user:password@host:5432/database';
const ENCODE =
  'must have these percent-encoded in its user and password: @ is %40, : is %3A, / is %2F, ? is %3F, # is %23, % is %25';

/** A host, with or without a port; before it user and password; after it database and parameters. */
const ADDRESS = /^postgres(?:ql)?:\/\/(?:([^:/?#@]*)(?::([^/?#@]*))?@)?([^/?#@]*?)(?::(\d*))?([/?][^@#]*)?$/i;

/** What people write instead, and what to do. The first that matches is told. */
const MISTAKES: readonly (readonly [RegExp, string])[] = [
  [/^$/, `is empty; write an address such as ${EXAMPLE}`],
  [/^(?:\uFEFF|ï»¿)/, 'begins with a byte order mark; save its file as UTF-8 without one'],
  [/^\s|\s$/, 'has a blank or a line break before or after the address; remove it'],
  [/^["'`“”‘’«]|["'`“”‘’»]$/, 'has quotes round it; remove them (--env-file of docker keeps quotes)'],
  [
    /^(?:(?:export|set|setx|env|-e|--env)\s+)?\$?(?:env:)?DATABASE_URL\s*[=:\s]/i,
    'has its own name in the value; leave out "DATABASE_URL="',
  ],
  [/^psql\s/i, 'begins with "psql"; leave that and the quotes out'],
  [/^jdbc:/i, `begins with "jdbc:"; leave that out, and write user and password before the host: ${EXAMPLE}`],
  [/^\s*[\w ]+\s*=/, `is a list like "host=… dbname=…"; write it as an address: ${EXAMPLE}`],
  [/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u, 'has a line break, a tab or an invisible character in it; remove it'],
  [/^postgres(?:ql)?:(?!\/\/)/i, `must have two slashes after its scheme: ${EXAMPLE}`],
  [
    /^(?!postgres(?:ql)?:)[a-z][a-z\d+.-]*:\/\//i,
    `is the address of something else; it must begin with "postgresql://"`,
  ],
  [/^(?!postgres(?:ql)?:)/i, `must begin with "postgresql://": ${EXAMPLE}`],
  [
    /\$\{\w+\}|\$\(\w+\)|\{\{.*\}\}|\[YOUR-PASSWORD\]|<(?:your[-_ ]?)?(?:password|user(?:name)?|host(?:name)?|database|db|port)>/i,
    'has a placeholder in it, such as ${NAME} or <password>; put the value there',
  ],
];

/** Names that promise something about security, or another server, and that neither the driver nor this service keeps. */
const PROMISES =
  /ssl|tls|auth|gss|krb|channel|binding|peer|cert|crl|scram|encrypt|secur|passfile|password|service|hostaddr|dbname/;
const KEPT: readonly string[] = [...TLS_PARAMETERS, 'channel_binding', 'password'];

/**
 * @returns the text itself, or for `postgresql://user:password@/database`, which only libpq takes, one that means the same
 * @throws saying which mistake it is, in words that follow the setting's name and have nothing of the value
 */
export function postgresUrl(text: string): string {
  const mistake = MISTAKES.find(([pattern]) => pattern.test(text))?.[1];
  if (mistake) throw new Error(mistake);
  const [head = '', ...parameters] = text.split('?');
  const [, user, password, host = '', port, rest = ''] = ADDRESS.exec(text) ?? [];
  if (text.includes('#') || !ADDRESS.test(text)) throw new Error(ENCODE);
  if (host.includes(',')) throw new Error('must name one host; put a proxy or a DNS name before several');
  if (/^[^[]*:/.test(host)) throw new Error('has a port that is not a number, or a password without @ and a host');
  if (Number(port) > 65_535) throw new Error('must name a port up to 65535');
  if (/[&;]\s*\w+=/.test(head)) throw new Error('must have ? before its first parameter, and & between them');
  if (parameters.some((part) => /;\s*\w+=|&amp;/.test(part))) throw new Error('must have & between its parameters');
  let address = text;
  try {
    decodeURIComponent(text);
    const isForLibpq = host === '' && (user !== undefined || port !== undefined);
    if (isForLibpq) address = withoutEmptyHost(rest, { user, password, port });
    new URL(address);
  } catch {
    throw new Error(/\[|\]/.test(host) ? 'has a host that is no address of IPv6 in brackets' : ENCODE);
  }
  refuseParameters(new URL(address));
  tlsOptions(address);
  return address;
}

function withoutEmptyHost(rest: string, parts: Record<string, string | undefined>): string {
  const url = new URL(`postgresql://${rest.startsWith('/') ? '' : '/'}${rest}`);
  for (const [name, value] of Object.entries(parts)) {
    if (value && !url.searchParams.has(name)) url.searchParams.set(name, decodeURIComponent(value));
  }
  return url.href;
}

function refuseParameters({ searchParams }: URL): void {
  for (const name of searchParams.keys()) {
    const plain = name.toLowerCase();
    if (KEPT.includes(name) || !PROMISES.test(plain.replaceAll(/[^a-z]/g, ''))) continue;
    const isTls = plain.startsWith('ssl');
    throw new Error(
      isTls && !KEPT.includes(plain)
        ? `must ask for TLS by ${TLS_PARAMETERS.join(', ')}, not by ${name}`
        : `has the parameter ${name}, which this service cannot keep; remove it`,
    );
  }
  const binding = searchParams.get('channel_binding');
  if (binding !== null && !['disable', 'prefer', 'require'].includes(binding))
    throw new Error('must have one of these as channel_binding: disable, prefer, require');
}
