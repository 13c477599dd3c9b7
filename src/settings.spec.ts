import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { ConnectionOptions } from 'node:tls';
import pg from 'pg';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createCertificate } from '../test/support/certificate.ts';
import { connectionConfig, Failure, passwordReader } from './lib/postgres/index.ts';
import { OTEL_VARIABLES, readSettings, SETTINGS, unusedVariables } from './settings.ts';

const DATABASE_URL = 'postgresql://user:secret@db.example/inventory';
const ADDRESS =
  'must be the address of one PostgreSQL server, such as postgresql://user:password@host:5432/database, but';
const unreadable = (part: string) => `${ADDRESS} its ${part} is not readable`;
const mustEncode = (part: string) =>
  `has a character in its ${part} that must be percent-encoded: write @ as %40, : as %3A, / as %2F, ? as %3F, # as %23, % as %25, a blank as %20`;
const unsupported = (name: string) =>
  `has the parameter ${name}, which this service does not support; remove it (TLS is asked for by sslmode)`;
const TLS_RULE =
  'must combine its TLS parameters as libpq does: an sslmode beside files, an sslrootcert for verify-ca, verify-full for sslrootcert=system, sslcert and sslkey together';
const PEM_RULE = 'has an sslrootcert, or an sslcert with its sslkey, that is not valid PEM';
const KEY_RULE = 'must be 32 to 256 characters of A-Z a-z 0-9 . _ ~ + / - (RFC 6750), but is';
const HOST_RULE = 'must be an IP address or a host name, but is';
const TRACES_RULE = 'must not end with /v1/traces, which is added; or use OTEL_EXPORTER_OTLP_TRACES_ENDPOINT';
const ORIGINS_RULE =
  'must be origins as a browser sends them, such as https://shop.example, separated by commas, but has';
const WITHOUT_PASSWORD = 'postgresql://user@db.example/inventory';

describe('readSettings', () => {
  it('requires only DATABASE_URL', () => {
    const expected = { DATABASE_URL, PORT: 3000, LOG_LEVEL: 'info', BOOTSTRAP_API_KEY: undefined };
    expect(readSettings({ DATABASE_URL })).toMatchObject(expected);
  });

  it('accepts the last port in an address, an address of IPv6, the shortest and the longest key', () => {
    for (const source of [
      { DATABASE_URL: 'Postgres://u@db:65535/x', BOOTSTRAP_API_KEY: 'x'.repeat(32) },
      { DATABASE_URL: 'postgresql://u@[::1]/x', BOOTSTRAP_API_KEY: `${'AZaz09._~+/-'.repeat(21)}xxxx` },
      { DATABASE_URL, BOOTSTRAP_API_KEY: `${'x'.repeat(254)}==` },
    ])
      expect(readSettings(source)).toMatchObject(source);
  });

  const OTEL_EXPORTER_OTLP_ENDPOINT = 'http://collector:4318';
  const PROTOCOL = 'must be one of http/protobuf, but is';
  it.each([
    ['OTEL_EXPORTER_OTLP_PROTOCOL', 'grpc', `${PROTOCOL} a name (4 characters)`],
    ['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'http/json', `${PROTOCOL} a text (9 characters)`],
    [
      'OTEL_TRACES_SAMPLER',
      'jaeger_remote',
      /^OTEL_TRACES_SAMPLER must be one of always_on, .*parentbased_traceidratio, but/,
    ],
    ['OTEL_TRACES_EXPORTER', 'zipkin', 'must be one of otlp, none, but is a name (6 characters)'],
    ['OTEL_TRACES_SAMPLER_ARG', '1.1', 'must be a number from 0 to 1, but is a fraction'],
    ['OTEL_TRACES_SAMPLER_ARG', '5%', 'must be a number from 0 to 1, but is a number with a unit'],
  ])('with traces, refuses as %s %j', (name, text, message) => {
    const source = { DATABASE_URL, [name]: text };
    const failure = typeof message === 'string' ? new Failure(`${name} ${message}`) : message;
    expect(() => readSettings({ ...source, OTEL_EXPORTER_OTLP_ENDPOINT })).toThrow(failure);
    for (const endpoint of [undefined, ''])
      // it may be meant for another program
      expect(readSettings({ ...source, OTEL_EXPORTER_OTLP_ENDPOINT: endpoint })).toEqual(
        readSettings({ DATABASE_URL }),
      );
    expect(readSettings({ DATABASE_URL, OTEL_EXPORTER_OTLP_ENDPOINT, [name]: '' })).toEqual(
      readSettings({ DATABASE_URL, OTEL_EXPORTER_OTLP_ENDPOINT }),
    );
  });

  it('takes the protocol and the endpoint of traces before those of all signals, and shares of traces', () => {
    readSettings({
      DATABASE_URL,
      OTEL_EXPORTER_OTLP_ENDPOINT: 'collector',
      OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: OTEL_EXPORTER_OTLP_ENDPOINT,
      OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'http/protobuf',
    });
    const shareOf = (OTEL_TRACES_SAMPLER_ARG: string) =>
      readSettings({ DATABASE_URL, OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_SAMPLER_ARG }).OTEL_TRACES_SAMPLER_ARG;
    expect(['0', '0.01', '.5', '1', '1.0'].map(shareOf)).toEqual([0, 0.01, 0.5, 1, 1]);
  });

  it('names the variables of OpenTelemetry that are set and do not count', () => {
    const unknown = { OTEL_EXPORTER_OTLP_TRACE_ENDPOINT: 'x', OTEL_BSP_SCHEDULE_DELAY: '1' };
    const known = Object.fromEntries(OTEL_VARIABLES.map((name) => [name, 'x']));
    expect(unusedVariables({ ...known, ...unknown, OTEL_LOG_LEVEL: '', PATH: 'x' })).toEqual(Object.keys(unknown));
  });

  it.each([
    ['PORT', 0, 65_535],
    ['LOG_SUCCESS_EVERY', 1, 1_000_000],
    ['RATE_LIMIT_PER_MINUTE', 0, 100_000_000],
    ['DATABASE_POOL_SIZE', 1, 100],
    ['REQUEST_DEADLINE_MS', 100, 9_000],
    ['MAX_WAITING_REQUESTS', 1, 100_000],
    ['DRAIN_DELAY_MS', 0, 600_000],
    ['DRAIN_TIMEOUT_MS', 100, 600_000],
  ] as const)('takes as %s the integers from %i to %i', (name, min, max) => {
    const read = (text: string) => readSettings({ DATABASE_URL, [name]: text })[name];
    expect([String(min), String(max)].map(read)).toEqual([min, max]);
    for (const [text, found] of [
      [`${min - 1}`, min === 0 ? 'a negative integer' : 'smaller'],
      [`${max + 1}`, `larger (${String(max + 1).length} digits)`],
      ['123456789012', 'larger (12 digits)'],
      ['9'.repeat(400), 'larger'],
      [`x${max}`, `a name (${1 + String(max).length} characters)`],
      [`${max}x`, 'a number with a unit'],
      ['3.5', 'a fraction'],
      ['1e3', 'a text (3 characters)'],
      ['', 'empty'],
    ] as const) {
      const message = `${name} must be an integer from ${min} to ${max}, but is ${found}`;
      expect(() => read(text), text).toThrow(new Failure(message));
    }
  });

  it.each([
    ['DATABASE_URL', undefined, `${ADDRESS} is empty`],
    ['DATABASE_URL', '\n', `${ADDRESS} is empty`],
    ['DATABASE_URL', 'postgresql://u:secret@db:65536/x', unreadable('port')],
    ['DATABASE_URL', 'postgresql://u:secret@db:0/x', unreadable('port')],
    ['PORT', '80a', 'must be an integer from 0 to 65535, but is a number with a unit'],
    ['DRAIN_TIMEOUT_MS', '5s', 'must be an integer from 100 to 600000, but is a number with a unit'],
    ['FAST', 'true', 'must be one of on, off, but is a name (4 characters)'],
    ['FAST', 'ON', 'must be one of on, off, but is a name in capital letters (2 characters)'],
    ['DOCS', '1', 'must be one of on, off, but is a number (1 digit)'],
    ['DOCS', '', 'must be one of on, off, but is empty'],
    ['LOG_LEVEL', '"info"', 'must be one of fatal, error, warn, info, debug, trace, silent, but is a text in quotes'],
    [
      'OTEL_EXPORTER_OTLP_ENDPOINT',
      'collector:4318',
      'must be a URL of http or https, without ? and #, but is a host with a port',
    ],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'http://c:4318/v1/traces', TRACES_RULE],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'http://c:4318/v1/traces/', TRACES_RULE],
    [
      'OTEL_EXPORTER_OTLP_ENDPOINT',
      'http://c:4318?k=x',
      'must be a URL of http or https, without ? and #, but is a URL',
    ],
    ['HOST', 'http://127.0.0.1', `${HOST_RULE} a URL`],
    ['HOST', '127.0.0.1:3000', `${HOST_RULE} a host with a port`],
    ['HOST', '[::]:3000', `${HOST_RULE} a host with a port`],
    ['HOST', '[::]', `${HOST_RULE} an address in brackets`],
    ['HOST', '*', `${HOST_RULE} a pattern`],
    ['HOST', '0.0.0.0 ', `${HOST_RULE} a text with a blank or a line break (8 characters)`],
    ['CORS_ORIGINS', '*', `${ORIGINS_RULE} a pattern`],
    ['CORS_ORIGINS', 'https://*.shop.example', `${ORIGINS_RULE} a pattern`],
    ['CORS_ORIGINS', 'null', `${ORIGINS_RULE} a name (4 characters)`],
    ['CORS_ORIGINS', 'shop.example', `${ORIGINS_RULE} a name (12 characters)`],
    ['CORS_ORIGINS', 'localhost:8080', `${ORIGINS_RULE} a host with a port`],
    ['CORS_ORIGINS', 'https://shop.example,https://b.example/', `${ORIGINS_RULE} a URL with a slash behind its host`],
    ['CORS_ORIGINS', 'https://shop.example/page', `${ORIGINS_RULE} a URL with a slash behind its host`],
    ['CORS_ORIGINS', 'https://Shop.example', `${ORIGINS_RULE} a URL with capital letters`],
    ['CORS_ORIGINS', 'https://shop.example:443', `${ORIGINS_RULE} a URL with its default port`],
    ['CORS_ORIGINS', 'ftp://shop.example', `${ORIGINS_RULE} a URL that is not of http or https`],
    ['CORS_ORIGINS', 'https://b\u00fccher.example', `${ORIGINS_RULE} a text with a character beyond ASCII`],
    [
      'CORS_ORIGINS',
      'https://a.ex, https://b.ex',
      `${ORIGINS_RULE} a text with a blank or a line break (13 characters)`,
    ],
    [
      'CORS_ORIGINS',
      'https://a.ex https://b.ex',
      `${ORIGINS_RULE} a text with a blank or a line break (25 characters)`,
    ],
    ['BOOTSTRAP_API_KEY', 'x'.repeat(31), `${KEY_RULE} a name (31 characters)`],
    ['BOOTSTRAP_API_KEY', `${'x'.repeat(256)}=`, `${KEY_RULE} a text (257 characters)`],
    ['BOOTSTRAP_API_KEY', `${'x'.repeat(32)} y`, `${KEY_RULE} a text with a blank or a line break (34 characters)`],
    ['BOOTSTRAP_API_KEY', `${'x'.repeat(32)}\n`, `${KEY_RULE} a text with a blank or a line break (33 characters)`],
  ])(
    'refuses a %s of %j: the message has the name, the form and the kind of what was found, never the value',
    (name, value, rule) => {
      expect(() => readSettings({ DATABASE_URL, [name]: value })).toThrow(new Failure(`${name} ${rule}`));
    },
  );

  it('takes the addresses to listen on that can work, and the origins that browsers send', () => {
    for (const HOST of ['0.0.0.0', '::', '::1', 'fe80::1%eth0', 'localhost', 'inventory-1.shop.svc.', ''])
      expect(readSettings({ DATABASE_URL, HOST })).toMatchObject({ HOST });
    const origins = [
      'https://shop.example',
      'http://localhost:8080',
      'http://[::1]:3000',
      'https://xn--bcher-kva.example',
    ];
    const { CORS_ORIGINS } = readSettings({ DATABASE_URL, CORS_ORIGINS: `${origins.join(',')},` });
    expect(CORS_ORIGINS).toEqual(origins);
  });

  it.each([
    [DATABASE_URL, 'prisma/migrations/migration_lock.toml', 'must not be set where DATABASE_URL has a password'],
    [
      `${WITHOUT_PASSWORD}?password=x`,
      'prisma/migrations/migration_lock.toml',
      'must not be set where DATABASE_URL has a password',
    ],
    [WITHOUT_PASSWORD, '/secret', 'names a file that cannot be read: no such file or directory'],
    [WITHOUT_PASSWORD, '/dev/null', 'names a file that is empty'],
  ])('for the address %s, refuses the password file %s', (address, file, rule) => {
    const source = { DATABASE_URL: address, DATABASE_PASSWORD_FILE: file };
    expect(() => readSettings(source)).toThrow(new Failure(`DATABASE_PASSWORD_FILE ${rule}`));
  });

  it('reads the password as an editor or a secret store wrote it, anew for each connection, and refuses more than one line', () => {
    const file = join(mkdtempSync(join(tmpdir(), 'inventory-settings-')), 'password');
    onTestFinished(() => rmSync(dirname(file), { recursive: true }));
    const read = () => readSettings({ DATABASE_URL: WITHOUT_PASSWORD, DATABASE_PASSWORD_FILE: file }).DATABASE_URL;
    writeFileSync(file, '\uFEFF p\t\r\n\n');
    expect(read()).not.toContain('p\t');
    const password = passwordReader(file);
    expect(password()).toBe(' p\t');
    writeFileSync(file, 'new');
    expect(password()).toBe('new');
    const rule = 'names a file that is not one line of UTF-8';
    for (const [content, problem] of [
      ['\n', 'names a file that is empty'],
      ['secret\nsecret\n', rule],
      [Buffer.from('\uFEFFsecret', 'utf16le'), rule],
      [Buffer.from('p\xe4', 'latin1'), rule],
    ] as const) {
      writeFileSync(file, content);
      expect(password()).toBe('new');
      expect(read).toThrow(new Failure(`DATABASE_PASSWORD_FILE ${problem}`));
    }
  });

  it.each([
    ['mysql://u:secret@db/x', unreadable('beginning')],
    ['DATABASE_URL="postgresql://u:secret@db/x"', unreadable('beginning')],
    ['postgresql://u:secret@one,two/x', unreadable('host')],
    ['postgresql://u:secret@${host}/x', unreadable('host')],
    ['postgresql://u:secret@db/x?host=one,two', unreadable('host')],
    ['postgresql://u:secret', unreadable('port')],
    ['postgresql://u:secret@2001:db8::1/x', unreadable('port')],
    ['postgresql://u:secret@one:5432,two:5432/x', unreadable('port')],
    ['postgresql://u:secret@db/x?port=65536', unreadable('port')],
    ['postgresql://u/secret@db/x', mustEncode('user')],
    ...['secret/@', 'secret?', 'secret#', 'secret%ff', 'secret\u200b'].map((password) => [
      `postgresql://u:${password}@db/x`,
      mustEncode('password'),
    ]),
    ['postgresql://u:secret%00@db/x', unreadable('password')],
    ['postgresql://u:secret@db/x&sslmode=require', mustEncode('database')],
    ['postgresql://u:secret@db/x # of the shop', mustEncode('database')],
    ['postgresql://db/x?user=u+&password=secret', mustEncode('parameter')],
    ['postgresql://db/x?schema=a;sslmode=require', mustEncode('parameter')],
    ['postgresql://db/x?user=u&password=a&secret=b', mustEncode('parameter')],
    ['postgresql://db/x?user=u&password=a&secret', unreadable('parameter')],
    ...['slmode', 'SSLMODE', 'sslcrl', 'DATABASE_PASSWORD_FILE'].map((name) => [
      `postgresql://u:secret@db/x?${name}=secret`,
      unsupported(name),
    ]),
    [
      'postgresql://u:secret@db/x?channel_binding=on',
      'must have one of these as channel_binding: disable, prefer, require',
    ],
    [
      'postgresql://u:secret@db/x?channel_binding=disable&channel_binding=require', // the last counts, as with libpq
      'must have an sslmode and no socket beside channel_binding=require; or remove channel_binding',
    ],
    [
      'postgresql://u:secret@db/x?sslmode=disable&sslnegotiation=direct',
      'must have an sslmode other than disable beside sslnegotiation=direct',
    ],
    [
      'postgresql://u:secret@db/x?sslmode=require&sslnegotiation=x',
      'must have one of these as sslnegotiation: postgres, direct',
    ],
  ] as [string, string][])(
    'refuses the address %j, and shows nothing of it but a part or a parameter',
    (address, rule) => {
      expect(() => readSettings({ DATABASE_URL: address })).toThrow(new Failure(`DATABASE_URL ${rule}`));
      expect(rule).not.toMatch(/secret/);
    },
  );

  it.each([
    ['postgresql://u:p%40w@/db?host=/run/sql', { user: 'u', password: 'p@w', host: '/run/sql', database: 'db' }],
    ['postgresql://u@:5433/db?host=/run/sql', { user: 'u', port: 5433, host: '/run/sql', database: 'db' }],
    ['postgres://u:p@?host=/run/sql', { user: 'u', password: 'p', host: '/run/sql' }],
  ])('takes the address %s of a socket', (address, expected) => {
    const { DATABASE_URL: url } = readSettings({ DATABASE_URL: address });
    expect(new pg.Client(connectionConfig(url, 'test', {}))).toMatchObject(expected);
  });

  it.each(['postgresql://u:p@s;s&{}@db/x', "postgresql://u@db/x?options=-csearch_path='a'+-cwork_mem=8MB"])(
    'takes %s, which has no other reading',
    (address) => expect(readSettings({ DATABASE_URL: address }).DATABASE_URL).toBe(address),
  );

  it('takes an address that ends with a line break, because files and secret stores add it', () => {
    expect(readSettings({ DATABASE_URL: `${DATABASE_URL}\r\n` })).toEqual(readSettings({ DATABASE_URL }));
  });

  it('takes parameters that promise nothing more than what holds', () => {
    const address = `${DATABASE_URL}?gssencmode=disable&ssl_min_protocol_version=TLSv1.2&connect_timeout=10&pgbouncer=true`;
    expect(readSettings({ DATABASE_URL: address }).DATABASE_URL).toBe(address);
  });

  it('refuses, without an sslmode, variables of libpq that demand one, another server or a proof', () => {
    const names = 'SSLMODE SSLROOTCERT SSLNEGOTIATION REQUIREAUTH CHANNELBINDING GSSENCMODE HOSTADDR SERVICE';
    const all = Object.fromEntries(names.split(' ').map((name) => [`PG${name}`, 'secret']));
    const rule = (list: string) =>
      `DATABASE_URL must say how to connect, because the service does not read ${list}; write it into DATABASE_URL, with an sslmode`;
    for (const name of Object.keys(all))
      expect(() => readSettings({ DATABASE_URL, [name]: 'secret' })).toThrow(new Failure(rule(name)));
    const both = { PGSSLMODE: 'disable', PGSSLCERT: 'secret' };
    expect(() => readSettings({ DATABASE_URL, ...both })).toThrow(new Failure(rule('PGSSLMODE and PGSSLCERT')));
    for (const mode of ['disable', 'require']) {
      const address = `${DATABASE_URL}?sslmode=${mode}`;
      expect(readSettings({ DATABASE_URL: address, ...all }).DATABASE_URL).toBe(address);
    }
    const others = { PGSSLMODE: '', PGHOST: 'x', PGPORT: 'x', PGPASSWORD: 'x', PGOPTIONS: 'x', XPGSSLMODE: 'x' };
    expect(readSettings({ DATABASE_URL, ...others }).DATABASE_URL).toBe(DATABASE_URL);
  });

  it.each([
    ['sslmode=verify-full&sslrootcert=/missing', 'has an sslrootcert that cannot be read: no such file or directory'],
    ['sslmode=require&sslcert=&sslkey=', 'has an sslcert that cannot be read: no such file or directory'],
    [
      'sslmode=require&sslcert=package.json&sslkey=/',
      'has an sslkey that cannot be read: illegal operation on a directory',
    ],
    ['sslmode=verify-full&sslrootcert=/dev/null', PEM_RULE],
    ['sslmode=require&sslcert=package.json&sslkey=package.json', PEM_RULE],
    ['sslmode=require&sslkey=/dev/null', TLS_RULE],
    ['sslmode=require&sslcert=package.json', TLS_RULE],
    ['sslcert=/dev/null&sslkey=/dev/null', TLS_RULE],
    ['sslrootcert=/dev/null', TLS_RULE],
    ['sslmode=verify-ca&sslrootcert=', TLS_RULE],
    ['sslmode=verify-ca&sslrootcert=system', TLS_RULE],
  ])('refuses the TLS parameters %s', (parameters, rule) => {
    const source = { DATABASE_URL: `${DATABASE_URL}?${parameters}` };
    expect(() => readSettings(source)).toThrow(new Failure(`DATABASE_URL ${rule}`));
  });

  it.each(['sslmode=disable', 'host=/run/postgresql&sslmode=require', 'host=/run/postgresql'])(
    'reads no TLS file with %s',
    (parameters) => {
      for (const files of ['sslrootcert=/missing', 'sslrootcert=system', 'sslcert=/missing', 'sslkey=/missing']) {
        const { DATABASE_URL: address } = readSettings({ DATABASE_URL: `${DATABASE_URL}?${parameters}&${files}` });
        expect(connectionConfig(address, 'test', {}).ssl).toBe(false);
      }
    },
  );

  it('takes a whole pair of sslcert and sslkey, and trusts the authorities of Node.js with sslrootcert=system', () => {
    const folder = mkdtempSync(join(tmpdir(), 'inventory-settings-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const pair = createCertificate();
    const [cert, key] = [join(folder, 'cert'), join(folder, 'key')];
    writeFileSync(cert, pair.certificate);
    writeFileSync(key, pair.key);
    const read = (parameters: string) =>
      readSettings({ DATABASE_URL: `${DATABASE_URL}?sslmode=verify-full&sslrootcert=system${parameters}` });
    for (const wrong of [`/dev/null&sslkey=${key}`, `${cert}&sslkey=/dev/null`, `${cert}&sslkey=package.json`])
      expect(() => read(`&sslcert=${wrong}`)).toThrow(new Failure(`DATABASE_URL ${PEM_RULE}`));
    const tls = (parameters = '') => connectionConfig(read(parameters).DATABASE_URL, 'test', {}).ssl;
    expect(tls()).toEqual({ rejectUnauthorized: true });
    expect(tls(`&sslcert=${cert}&sslkey=${key}`)).toMatchObject({ cert: pair.certificate, key: pair.key });
  });

  it('verifies the server by the sslrootcert, and its name only with verify-full', () => {
    const ca = join(mkdtempSync(join(tmpdir(), 'inventory-settings-')), 'ca');
    onTestFinished(() => rmSync(dirname(ca), { recursive: true }));
    const { certificate } = createCertificate();
    writeFileSync(ca, certificate);
    const tls = (mode: string) => {
      const { DATABASE_URL: address } = readSettings({
        DATABASE_URL: `${DATABASE_URL}?sslmode=${mode}&sslrootcert=${ca}`,
      });
      return connectionConfig(address, 'test', {}).ssl as ConnectionOptions;
    };
    const verified = { ca: certificate, rejectUnauthorized: true };
    const anyName = { ...verified, checkServerIdentity: expect.any(Function) as unknown };
    expect(['disable', 'require', 'verify-ca', 'verify-full'].map(tls)).toEqual([
      ...[false, anyName, anyName],
      verified,
    ]);
    const options = tls('verify-full');
    const contents = ['renewed', ''].map((text) => (writeFileSync(ca, text), options.ca));
    rmSync(ca);
    expect([...contents, options.ca]).toEqual(Array(3).fill('renewed'));
  });

  it('reports all faults together', () => {
    expect(() => readSettings({ PORT: 'x', LOG_LEVEL: 'loud' })).toThrow(/DATABASE_URL.*\nPORT.*\nLOG_LEVEL/);
  });
});

/**
 * Each cell is the behaviour of psql 15, except on TCP: there psql prefers TLS when no mode is given, and accepts
 * `allow` and `prefer`.
 */
describe('TLS for an address and each sslmode', () => {
  const modes = ['', 'disable', 'allow', 'prefer', 'require', 'verify-full', 'verify_full', 'REQUIRE'];
  const TCP = ['none', 'none', 'refused', 'refused', 'encrypted', 'verified', 'refused', 'refused'];
  const SOCKET = ['none', 'none', 'none', 'none', 'none', 'none', 'refused', 'refused'];

  it.each([
    ['postgresql://me@db.example/db', TCP],
    ['postgresql://me@%2Frun%2Fpostgresql/db?host=db.example', TCP],
    ['postgresql://me@%2frun%2fpostgresql/db', SOCKET],
    ['postgresql://db.example/db?host=/run/postgresql', SOCKET],
  ])('is that of psql: %s', (address, expected) => {
    const outcomeOf = (mode: string) => {
      const parameter = mode === '' ? '' : `${address.includes('?') ? '&' : '?'}sslmode=${mode}`;
      try {
        const { DATABASE_URL } = readSettings({ DATABASE_URL: address + parameter });
        const { ssl } = connectionConfig(DATABASE_URL, 'test', {});
        if (ssl === false) return 'none';
        return (ssl as ConnectionOptions).rejectUnauthorized === false ? 'encrypted' : 'verified';
      } catch (error) {
        expect((error as Error).message).toMatch(/^DATABASE_URL must have one of these as sslmode/);
        return 'refused';
      }
    };
    expect(modes.map(outcomeOf)).toEqual(expected);
  });
});

it('docs/operations.md has a table of all settings, and the README some of its rows', () => {
  const rowsOf = (page: string) => {
    const text = readFileSync(new URL(`../${page}`, import.meta.url), 'utf8');
    const rows = [...text.matchAll(/^\| `([A-Z_]+)` +\| (?:`(.+?)`)? *\| (.+?) +\|$/gm)];
    return rows.map(([, name, fallback = '', meaning]) => ({ name, fallback, meaning }));
  };
  const known = Object.entries<{ default: string | undefined; meaning: string }>(SETTINGS);
  const rows = known.map(([name, { default: fallback = '', meaning }]) => ({ name, fallback, meaning }));
  expect(rowsOf('docs/operations.md')).toEqual(rows);
  expect(rowsOf('README.md')).toHaveLength(6);
  expect(rows).toEqual(expect.arrayContaining(rowsOf('README.md')));
});

it('docs/operations.md lists the variables of OpenTelemetry that count', () => {
  const text = readFileSync(new URL('../docs/operations.md', import.meta.url), 'utf8');
  const names = Array.from(text.matchAll(/`(OTEL_\w+[A-Z])[`=]/g), ([, name = '']) => name);
  const ofTraces = names.map((name) => name.replace('OTLP_', 'OTLP_TRACES_')); // as it says, too
  expect([...new Set([...names, ...ofTraces])].toSorted()).toEqual(OTEL_VARIABLES.toSorted());
});
