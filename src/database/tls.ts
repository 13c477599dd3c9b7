import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { type ConnectionOptions, createSecureContext } from 'node:tls';

/** Not `allow` and `prefer`: they may do without encryption, which the driver never does. */
const MODES = ['disable', 'require', 'verify-ca', 'verify-full'];
const FILES = { sslrootcert: 'ca', sslcert: 'cert', sslkey: 'key' } as const;

/** Of a connection string; {@link tlsOptions} takes no others that begin with `ssl`. */
export const TLS_PARAMETERS: readonly string[] = ['sslmode', ...Object.keys(FILES)];

/**
 * What a connection string asks of TLS, as libpq (psql, pg_dump) understands it; the driver's own reading differs.
 *
 * @returns for the driver, which reads the files anew for each connection; `undefined` when the string asks nothing
 * @throws naming the rule that is broken, in words that follow the setting's name
 */
export function tlsOptions(databaseUrl: string): ConnectionOptions | false | undefined {
  const parameters = new Map(new URL(databaseUrl).searchParams);
  const foreign = [...parameters.keys()].find((name) => name.startsWith('ssl') && !TLS_PARAMETERS.includes(name));
  if (foreign) throw new Error(`must ask for TLS by ${TLS_PARAMETERS.join(', ')}, not by ${foreign}`);

  const mode = parameters.get('sslmode');
  const root = parameters.get('sslrootcert');
  const hasPair = parameters.has('sslcert');
  if (mode === undefined) {
    if (root || hasPair) throw new Error('must have an sslmode, such as verify-full, beside its certificates');
    return undefined;
  }
  if (!MODES.includes(mode)) throw new Error(`must have one of these as sslmode: ${MODES.join(', ')}`);
  if (mode === 'disable') return false;
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

/** Of Node.js, the driver and PostgreSQL, as any layer passes them on. */
const FAILURES: readonly (readonly [RegExp, string])[] = [
  [
    /self-signed certificate|unable to (get|verify) .*(certificate|issuer)|certificate signature failure/,
    'no authority in its sslrootcert vouches for the certificate of the server',
  ],
  [
    /Hostname\/IP does not match certificate's altnames: (?:Host: |IP: )?(.*?)[ :`]*$/m,
    "its host is not the one of the server's certificate: $1",
  ],
  [/certificate has expired|certificate is not yet valid/, "the server's $&"],
  [/server does not support SSL connections/, 'its sslmode asks for TLS, which the server does not speak'],
  [/no pg_hba\.conf entry .*no encryption/, 'the server wants TLS of this client: add sslmode=verify-full'],
  [
    /requires a valid client certificate|alert (certificate required|unknown ca|bad certificate)/,
    'the server wants a client certificate that it knows: check sslcert and sslkey',
  ],
];

/** What to say of a connection that failed because of TLS; `undefined` when the cause was another. */
export function tlsFailure(message: string): string | undefined {
  for (const [pattern, words] of FAILURES) {
    const [found] = pattern.exec(message) ?? [];
    if (found !== undefined) return `no TLS with the database of DATABASE_URL: ${found.replace(pattern, words)}`;
  }
  return undefined;
}
