import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { type ConnectionOptions, createSecureContext } from 'node:tls';

const MODES = ['disable', 'require', 'verify-ca', 'verify-full'];
/** They may do without encryption, which the driver never does; for a socket, which has none, they are as good as any. */
const MODES_OF_SOCKETS = ['allow', 'prefer', ...MODES];
const FILES = { sslrootcert: 'ca', sslcert: 'cert', sslkey: 'key' } as const;

/** Of a connection string; {@link tlsOptions} takes no others that begin with `ssl`. */
export const TLS_PARAMETERS: readonly string[] = ['sslmode', ...Object.keys(FILES)];

/**
 * What a connection string asks of TLS, as libpq (psql, pg_dump) understands it; the driver's own reading differs. Over a
 * socket there is none, whatever the mode.
 *
 * @returns for the driver, which reads the files anew for each connection; `false` for none
 * @throws naming the rule that is broken, in words that follow the setting's name
 */
export function tlsOptions(databaseUrl: string): ConnectionOptions | false {
  const { hostname, searchParams } = new URL(databaseUrl);
  const parameters = new Map(searchParams);
  const foreign = [...parameters.keys()].find((name) => name.startsWith('ssl') && !TLS_PARAMETERS.includes(name));
  if (foreign) throw new Error(`must ask for TLS by ${TLS_PARAMETERS.join(', ')}, not by ${foreign}`);

  const mode = parameters.get('sslmode');
  const root = parameters.get('sslrootcert');
  const hasPair = parameters.has('sslcert');
  const host = parameters.get('host') ?? ''; // it counts more than the one in front, for libpq and for the driver
  const isSocket = (host === '' ? decodeURIComponent(hostname) : host).startsWith('/');
  if (mode !== undefined && !(isSocket ? MODES_OF_SOCKETS : MODES).includes(mode))
    throw new Error(`must have one of these as sslmode: ${MODES.join(', ')}`);
  if (isSocket || mode === 'disable') return false;
  if (mode === undefined) {
    if (root || hasPair) throw new Error('must have an sslmode, such as verify-full, beside its certificates');
    return false;
  }
  const isSystems = root === 'system'; // the authorities that Node.js trusts by itself
  if (isSystems && mode !== 'verify-full') throw new Error('must have sslmode=verify-full for sslrootcert=system');
  if (!root && mode === 'verify-ca') throw new Error('must have an sslrootcert for sslmode=verify-ca');
  if (hasPair !== parameters.has('sslkey')) throw new Error('must have both sslcert and sslkey, or neither');

  const options: ConnectionOptions = {};
  for (const [name, option] of Object.entries(FILES)) {
    const path = parameters.get(name);
    if (path === undefined || (isSystems && option === 'ca')) continue;
    let last = readText(path, `has an ${name} that cannot be read`);
    const get = () => {
      try {
        last = readFileSync(path, 'utf8') || last;
      } catch {
        // It is being replaced.
      }
      return last;
    };
    Object.defineProperty(options, option, { get, enumerable: true, configurable: true });
  }
  const { ca, cert, key } = options;
  if (ca !== undefined)
    attempt('has an sslrootcert that is no certificate in PEM', () => new X509Certificate(ca as string));
  if (hasPair) {
    const noPair = 'has an sslcert and an sslkey that are no pair in PEM';
    if (!cert || !key) throw new Error(noPair); // an empty one counts as none for Node.js
    attempt(noPair, () => createSecureContext({ cert, key }));
  }
  if (!root && mode === 'require') options.rejectUnauthorized = false;
  else if (mode !== 'verify-full') options.checkServerIdentity = () => undefined;
  return options;
}

function attempt<T>(failure: string, act: () => T): T {
  try {
    return act();
  } catch (cause) {
    throw new Error(failure, { cause });
  }
}

/** @throws with `failure` and why, but not with the path, which may be a secret in the wrong place */
export function readText(path: string, failure: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    const [, why] = /^[A-Z]+: ([^,]+)/.exec((cause as Error).message) ?? []; // ENOENT: no such file or directory, open '…'
    throw new Error(`${failure}: ${why}`, { cause });
  }
}
