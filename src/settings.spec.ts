import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { Failure } from './lib/postgres/index.ts';
import { OTEL_VARIABLES, readSettings, SETTINGS, unusedVariables } from './settings.ts';

const DATABASE_URL = 'postgresql://user:secret@db.example/inventory';

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
  it.each([
    ['OTEL_EXPORTER_OTLP_PROTOCOL', 'grpc', 'must be one of http/protobuf, but is "grpc"'],
    ['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL', 'http/json', 'must be one of http/protobuf, but is "http/json"'],
    [
      'OTEL_TRACES_SAMPLER',
      'jaeger_remote',
      /^OTEL_TRACES_SAMPLER must be one of always_on, .*parentbased_traceidratio, but/,
    ],
    ['OTEL_TRACES_EXPORTER', 'zipkin', 'must be one of otlp, none, but is "zipkin"'],
    ['OTEL_TRACES_SAMPLER_ARG', '1.1', 'must be a number from 0 to 1, but is "1.1"'],
    ['OTEL_TRACES_SAMPLER_ARG', '5%', 'must be a number from 0 to 1, but is "5%"'],
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
    for (const text of [`${min - 1}`, `${max + 1}`, '9'.repeat(400), `x${max}`, `${max}x`, '3.5', '1e3', '']) {
      const shown = text.length > 40 ? `${'9'.repeat(40)}…` : text;
      const message = `${name} must be an integer from ${min} to ${max}, but is "${shown}"`;
      expect(() => read(text), text).toThrow(new Failure(message));
    }
  });

  const TRACES_RULE = 'must not end with /v1/traces, which is added; or use OTEL_EXPORTER_OTLP_TRACES_ENDPOINT';
  const URL_RULE = 'must be a URL of http or https, without ? and #';
  const HOST_RULE = 'must be an IP address or a host name';
  const ORIGINS_RULE = 'must be origins as a browser sends them, such as https://shop.example, separated by commas';

  it.each([
    ...['true', 'ON', '', '"on"'].map((text) => ['FAST', text, `must be one of on, off, but is "${text}"`]),
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'collector:4318', `${URL_RULE}, but is "collector:4318"`],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'http://c:4318/v1/traces', TRACES_RULE],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'http://c:4318/v1/traces/', TRACES_RULE],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'http://c:4318?k=x', `${URL_RULE}, but is "http://c:4318?k=x"`],
    ...['http://127.0.0.1', '127.0.0.1:3000', '[::]:3000', '[::]', '*', '0.0.0.0 '].map((text) => [
      'HOST',
      text,
      `${HOST_RULE}, but is "${text}"`,
    ]),
    ['HOST', 'a\n\u001b[2J\u2028', `${HOST_RULE}, but is "a\ufffd\ufffd[2J\ufffd"`],
    ...['*', 'https://*.shop.example', 'null', 'shop.example', 'localhost:8080', 'https://shop.example/page'].map(
      (text) => ['CORS_ORIGINS', text, `${ORIGINS_RULE}, but is "${text}"`],
    ),
    ...['https://Shop.example', 'https://shop.example:443', 'ftp://shop.example', 'https://b\u00fccher.example'].map(
      (text) => ['CORS_ORIGINS', `https://a.ex,${text},https://b.ex`, `${ORIGINS_RULE}, but is "${text}"`],
    ),
    ['CORS_ORIGINS', 'https://a.ex, https://b.ex', `${ORIGINS_RULE}, but is " https://b.ex"`],
    ['CORS_ORIGINS', 'https://a.ex https://b.ex', `${ORIGINS_RULE}, but is "https://a.ex https://b.ex"`],
  ] as [string, string, string][])('refuses as %s %j, and shows it', (name, value, rule) => {
    expect(() => readSettings({ DATABASE_URL, [name]: value })).toThrow(new Failure(`${name} ${rule}`));
  });

  const KEY_RULE = 'must be 32 to 256 characters of A-Z a-z 0-9 . _ ~ + / - (RFC 6750)';
  it.each([
    ...['x'.repeat(31), `${'x'.repeat(256)}=`, `${'x'.repeat(32)} y`, `${'x'.repeat(32)}\n`].map((text) => [
      'BOOTSTRAP_API_KEY',
      text,
      KEY_RULE,
    ]),
    ['DATABASE_URL', 'secret', /must be the address .+, but its beginning is not readable$/],
    ['PORT', `psk_${'x'.repeat(46)}`, 'must be an integer from 0 to 65535'],
    ['HOST', 'http://u:secret@host', HOST_RULE],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'https://secret@collector?', URL_RULE],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'user:secret@collector:4318', URL_RULE],
    ['HOST', 'user:secret@host', HOST_RULE],
    ['CORS_ORIGINS', 'https://user:sec,ret@a.ex', ORIGINS_RULE],
  ] as [string, string, string | RegExp][])(
    'refuses as %s %j, which may be a secret, without it',
    (name, value, rule) => {
      const message = typeof rule === 'string' ? new Failure(`${name} ${rule}`) : rule;
      expect(() => readSettings({ DATABASE_URL, [name]: value })).toThrow(message);
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

  it('reports all faults together', () => {
    expect(() => readSettings({ PORT: 'x', LOG_LEVEL: 'loud' })).toThrow(/DATABASE_URL.*\nPORT.*\nLOG_LEVEL/);
    const source = { DATABASE_URL: 'postgresql://user@db.example/x', DATABASE_PASSWORD_FILE: '/secret', PORT: 'x' };
    expect(() => readSettings(source)).toThrow(/^DATABASE_PASSWORD_FILE names a file that cannot be read.*\nPORT/);
  });
});

it('docs/operations.md has a table of all settings, and the README some of its rows', () => {
  const rowsOf = (page: string) => {
    const text = readFileSync(new URL(`../${page}`, import.meta.url), 'utf8');
    const rows = [...text.matchAll(/^\| `([A-Z_]+)` +\| (?:`(.+?)`)? *\| (.+?) +\|$/gm)];
    return rows.map(([, name, fallback = '', meaning]) => ({ name, fallback, meaning }));
  };
  const rows = rowsOf('docs/operations.md');
  const settings = Object.entries(SETTINGS).map(([name, { default: fallback }]) => ({ name, fallback }));
  expect(rows).toMatchObject(settings);
  expect(rowsOf('README.md')).toHaveLength(6);
  expect(rows).toEqual(expect.arrayContaining(rowsOf('README.md')));
});

it('docs/operations.md lists the variables of OpenTelemetry that count', () => {
  const text = readFileSync(new URL('../docs/operations.md', import.meta.url), 'utf8');
  const names = Array.from(text.matchAll(/`(OTEL_\w+[A-Z])[`=]/g), ([, name = '']) => name);
  const ofTraces = names.map((name) => name.replace('OTLP_', 'OTLP_TRACES_')); // as it says, too
  expect([...new Set([...names, ...ofTraces])].toSorted()).toEqual(OTEL_VARIABLES.toSorted());
});
