import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ConnectionOptions } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createCertificate } from '../../../test/support/certificate.ts';
import { connectionConfig } from './connection-config.ts';
import { postgresUrl } from './database-url.ts';

const TLS_RULE =
  'must combine its TLS parameters as libpq does: an sslmode beside files, TLS beside channel_binding=require and sslnegotiation=direct, an sslrootcert for verify-ca, verify-full for sslrootcert=system, sslcert and sslkey together';
const PEM_RULE = 'has an sslrootcert, or an sslcert with its sslkey, that is not valid PEM';

const { certificate, key } = createCertificate();
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'postgres-tls-'));
  for (const name of ['root', 'cert']) writeFileSync(join(folder, name), certificate);
  writeFileSync(join(folder, 'key'), key);
});
afterAll(() => rmSync(folder, { recursive: true }));

/** @param parameters in which `$` is the folder of the files */
function tls(parameters: string, address = 'postgresql://me@db.example/db'): ConnectionOptions | false {
  const separator = address.includes('?') ? '&' : '?';
  const text = parameters === '' ? address : `${address}${separator}${parameters.replaceAll('$', folder)}`;
  return connectionConfig(postgresUrl(text), 'test', {}).ssl as ConnectionOptions | false;
}

/**
 * Each cell is the behaviour of psql 15, except on TCP: there psql prefers TLS when no mode is given, and accepts
 * `allow` and `prefer`.
 */
describe('TLS for an address and each sslmode', () => {
  const MODES = ['', 'disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full', 'verify_full', 'REQUIRE'];
  const [no, bad] = ['none', 'refused'];
  const TCP = [no, no, bad, bad, 'encrypted', bad, 'name verified', bad, bad];
  const TCP_WITH_ROOT = [bad, no, bad, bad, 'verified', 'verified', 'name verified', bad, bad];
  const SOCKET = [no, no, no, no, no, no, no, bad, bad];

  it.each([
    ['postgresql://me@db.example/db', '', TCP],
    ['postgresql://me@db.example/db', 'sslrootcert=$/root', TCP_WITH_ROOT],
    ['postgresql://me@db.example/db', 'sslrootcert=system', [bad, no, bad, bad, bad, bad, 'name verified', bad, bad]],
    ['postgresql://me@%2Frun%2Fpostgresql/db?host=db.example', '', TCP],
    ['postgresql://me@%2frun%2fpostgresql/db', '', SOCKET],
    ['postgresql://db.example/db?host=/run/postgresql', '', SOCKET],
    ['postgresql://db.example/db?host=/run/postgresql', 'sslrootcert=$/root', SOCKET],
  ])('is that of psql: %s with %j', (address, root, expected) => {
    const outcomeOf = (mode: string) => {
      try {
        const ssl = tls([root, mode && `sslmode=${mode}`].filter(Boolean).join('&'), address);
        if (ssl === false) return no;
        if (ssl.rejectUnauthorized === false) return 'encrypted';
        expect(ssl.rejectUnauthorized).toBe(true); // whatever NODE_TLS_REJECT_UNAUTHORIZED says
        return ssl.checkServerIdentity ? 'verified' : 'name verified';
      } catch (error) {
        expect((error as Error).message).toMatch(/^must (?:have one of these as sslmode|combine its TLS parameters)/);
        return bad;
      }
    };
    expect(MODES.map(outcomeOf)).toEqual(expected);
  });
});

it.each([
  ['sslmode=verify-full&sslrootcert=/missing', 'has an sslrootcert that cannot be read: no such file or directory'],
  ['sslmode=require&sslcert=&sslkey=', 'has an sslcert that cannot be read: no such file or directory'],
  ['sslmode=require&sslcert=$/cert&sslkey=/', 'has an sslkey that cannot be read: illegal operation on a directory'],
  ['sslmode=verify-full&sslrootcert=/dev/null', PEM_RULE],
  ['sslmode=require&sslcert=/dev/null&sslkey=$/key', PEM_RULE],
  ['sslmode=require&sslcert=$/cert&sslkey=package.json', PEM_RULE],
  ['sslmode=require&sslkey=/dev/null', TLS_RULE],
  ['sslmode=require&sslcert=package.json', TLS_RULE],
  ['sslcert=/dev/null&sslkey=/dev/null', TLS_RULE],
  ['sslmode=verify-ca&sslrootcert=', TLS_RULE],
])('refuses the TLS parameters %s', (parameters, rule) => {
  expect(() => tls(parameters)).toThrow(new Error(rule));
});

it.each(['sslmode=disable', 'host=/run/postgresql&sslmode=require', 'host=/run/postgresql'])(
  'reads no TLS file with %s',
  (parameters) => {
    for (const files of ['sslrootcert=/missing', 'sslrootcert=system', 'sslcert=/missing', 'sslkey=/missing'])
      expect(tls(`${parameters}&${files}`)).toBe(false);
  },
);

it('takes a pair of sslcert and sslkey, and trusts the authorities of Node.js with sslrootcert=system', () => {
  expect(tls('sslmode=verify-full&sslrootcert=system')).toEqual({ rejectUnauthorized: true });
  expect(tls('sslmode=require&sslcert=$/cert&sslkey=$/key')).toEqual({
    rejectUnauthorized: false,
    cert: certificate,
    key,
  });
});

it('reads a renewed sslrootcert for the next connection; while it is empty or missing, its last content counts', () => {
  const ca = join(folder, 'renewed');
  writeFileSync(ca, certificate);
  const options = tls('sslmode=verify-full&sslrootcert=$/renewed') as ConnectionOptions;
  const contents = [certificate, 'renewed', ''].map((text) => (writeFileSync(ca, text), options.ca));
  rmSync(ca);
  expect([...contents, options.ca]).toEqual([certificate, 'renewed', 'renewed', 'renewed']);
});
