import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { type ConnectionOptions, createSecureContext } from 'node:tls';

const CHOICES = {
  sslmode: ['disable', 'require', 'verify-ca', 'verify-full'],
  channel_binding: ['disable', 'prefer', 'require'],
  sslnegotiation: ['postgres', 'direct'],
};
const FILES = { sslrootcert: 'ca', sslcert: 'cert', sslkey: 'key' } as const;

/** The parameters of a connection string that {@link tlsOptions} reads. */
export const TLS_PARAMETERS = [CHOICES, FILES].flatMap(Object.keys);

const RULE =
  'must combine its TLS parameters as libpq does: an sslmode beside files, TLS beside channel_binding=require and sslnegotiation=direct, an sslrootcert for verify-ca, verify-full for sslrootcert=system, sslcert and sslkey together';

/**
 * Reads the TLS parameters of a connection string as libpq (psql, pg_dump) does, because the driver reads them
 * differently.
 *
 * @returns options that read the files anew for each connection; `false` for a socket or without TLS
 * @throws naming the broken rule, in words that follow the setting's name
 */
export function tlsOptions(databaseUrl: string): ConnectionOptions | false {
  const url = new URL(databaseUrl);
  const parameters = new Map(url.searchParams);
  const mode = parameters.get('sslmode');
  const root = parameters.get('sslrootcert');
  const isSocket = hostOf(url).startsWith('/'); // without TLS, so libpq also takes the modes that may do without it
  for (const [name, choices] of Object.entries(CHOICES)) {
    const given = parameters.get(name);
    const more = isSocket && name === 'sslmode' ? ['allow', 'prefer'] : [];
    if (given !== undefined && ![...choices, ...more].includes(given))
      throw new Error(`must have one of these as ${name}: ${choices.join(', ')}`);
  }
  const hasNoTls = mode === undefined || mode === 'disable' || isSocket;
  const isDirect = parameters.get('sslnegotiation') === 'direct';
  if (hasNoTls && (parameters.get('channel_binding') === 'require' || (isDirect && !isSocket))) throw new Error(RULE);
  if (isSocket || mode === 'disable') return false;
  const hasPair = parameters.has('sslcert');
  const isSystems = root === 'system'; // the authorities that Node.js trusts by itself
  if (
    (mode === undefined && (root || hasPair)) ||
    (mode === 'verify-ca' && !root) ||
    (isSystems && mode !== 'verify-full') ||
    hasPair !== parameters.has('sslkey')
  )
    throw new Error(RULE);
  if (mode === undefined) return false;

  const options: ConnectionOptions = {};
  for (const [name, option] of Object.entries(FILES)) {
    const path = parameters.get(name);
    if (path !== undefined && !(isSystems && option === 'ca')) readAnew(options, option, path, name);
  }
  const { ca, cert, key } = options;
  try {
    if (ca !== undefined) new X509Certificate(ca as string);
    if (hasPair && (!cert || !key)) throw new Error('empty'); // which Node.js takes for none
    createSecureContext({ cert, key });
  } catch (cause) {
    throw new Error('has an sslrootcert, or an sslcert with its sslkey, that is not valid PEM', { cause });
  }
  options.rejectUnauthorized = Boolean(root) || mode !== 'require'; // whatever NODE_TLS_REJECT_UNAUTHORIZED says
  if (options.rejectUnauthorized && mode !== 'verify-full') options.checkServerIdentity = () => undefined;
  return options;
}

/** @returns the folder of a socket, a name, or an IP address */
export function hostOf({ hostname, searchParams }: URL): string {
  const { host } = Object.fromEntries(searchParams);
  return filled(host, decodeURIComponent(hostname).replace(/^\[|\]$/g, ''), 'localhost');
}

/** @returns the first that is not empty: an empty parameter counts as none */
export const filled = (...texts: (string | undefined)[]): string => texts.find(Boolean) ?? '';

/** A renewed file counts for the next connection. */
function readAnew(options: ConnectionOptions, option: 'ca' | 'cert' | 'key', path: string, name: string): void {
  const get = lastText(() => readText(path, `has an ${name} that cannot be read`));
  Object.defineProperty(options, option, { get, enumerable: true, configurable: true });
}

/** Reads at once, and again at each call. While a file is being replaced, its last content counts. */
export function lastText(read: () => string): () => string {
  let last = read();
  return () => {
    try {
      last = read() || last;
    } catch {} // it is being replaced
    return last;
  };
}

/** @throws with `failure` and why, but not with the path, which may be a secret in the wrong place */
export function readText(path: string, failure: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    // ENOENT: no such file or directory, open '…'.
    const [, why] = /^[A-Z]+: ([^,]+)/.exec((cause as Error).message) ?? [];
    throw new Error(`${failure}: ${why}`, { cause });
  }
}
