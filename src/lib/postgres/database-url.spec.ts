import pg from 'pg';
import { expect, it } from 'vitest';
import { connectionConfig } from './connection-config.ts';
import { postgresUrl } from './database-url.ts';

const TLS_RULE =
  'must combine its TLS parameters as libpq does: an sslmode beside files, TLS beside channel_binding=require and sslnegotiation=direct, an sslrootcert for verify-ca, verify-full for sslrootcert=system, sslcert and sslkey together';
const DATABASE_URL = 'postgresql://user:secret@db.example/x';
const ADDRESS =
  'must be the address of one PostgreSQL server, such as postgresql://user:password@host:5432/database, but';
const unreadable = (part: string) => `${ADDRESS} its ${part} is not readable`;
const mustEncode = (part: string) =>
  `has a character in its ${part} that must be percent-encoded: write @ as %40, : as %3A, / as %2F, ? as %3F, # as %23, % as %25, a blank as %20`;
const unsupported = (name: string) =>
  `has the parameter ${name}, which this service does not support; remove it (TLS is asked for by sslmode)`;

it.each([
  ...['', '\n'].map((address) => [address, `${ADDRESS} is empty`]),
  ['mysql://u:secret@db/x', unreadable('beginning')],
  ['DATABASE_URL="postgresql://u:secret@db/x"', unreadable('beginning')],
  ['postgresql://u:secret@one,two/x', unreadable('host')],
  ['postgresql://u:secret@${host}/x', unreadable('host')],
  ['postgresql://u:secret@db/x?host=one,two', unreadable('host')],
  ['postgresql://u:secret', unreadable('port')],
  ['postgresql://u:secret@one:5432,two:5432/x', unreadable('port')],
  ['postgresql://u:secret@db:65536/x', unreadable('port')],
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
  ['postgresql://db/x?user=u&password=a&secret', unreadable('parameter')],
  ...['slmode', 'SSLMODE', 'sslcrl', 'password_file'].map((name) => [
    `postgresql://u:secret@db/x?${name}=secret`,
    unsupported(name),
  ]),
  [
    'postgresql://u:secret@db/x?channel_binding=on',
    'must have one of these as channel_binding: disable, prefer, require',
  ],
  [
    'postgresql://u:secret@db/x?channel_binding=disable&channel_binding=require', // the last counts, as with libpq
    TLS_RULE,
  ],
  ['postgresql://u:secret@db/x?sslmode=disable&sslnegotiation=direct', TLS_RULE],
  [
    'postgresql://u:secret@db/x?sslmode=require&sslnegotiation=x',
    'must have one of these as sslnegotiation: postgres, direct',
  ],
] as [string, string][])(
  'refuses the address %j, and shows nothing of it but a part or a parameter',
  (address, rule) => {
    expect(() => postgresUrl(address)).toThrow(new Error(rule));
    expect(rule).not.toMatch(/secret/);
  },
);

it.each([
  ['postgresql://u:p%40w@/db?host=/run/sql', { user: 'u', password: 'p@w', host: '/run/sql', database: 'db' }],
  ['postgresql://u@:5433/db?host=/run/sql', { user: 'u', port: 5433, host: '/run/sql', database: 'db' }],
  ['postgres://u:p@?host=/run/sql', { user: 'u', password: 'p', host: '/run/sql' }],
])('takes the address %s of a socket', (address, expected) => {
  expect(new pg.Client(connectionConfig(postgresUrl(address), 'test', {}))).toMatchObject(expected);
});

it.each(['postgresql://u:p@s;s&{}@db/x', "postgresql://u@db/x?options=-csearch_path='a'+-cwork_mem=8MB"])(
  'takes %s, which has no other reading',
  (address) => expect(postgresUrl(address)).toBe(address),
);

it('takes an address that ends with a line break, because files and secret stores add it', () => {
  expect(postgresUrl(`${DATABASE_URL}\r\n`)).toBe(DATABASE_URL);
});

it('takes parameters that promise nothing more than what holds', () => {
  const address = `${DATABASE_URL}?gssencmode=disable&ssl_min_protocol_version=TLSv1.2&connect_timeout=10&pgbouncer=true`;
  expect(postgresUrl(address)).toBe(address);
});

it('refuses, without an sslmode, variables of libpq that demand one, another server or a proof', () => {
  const names = 'SSLMODE SSLROOTCERT SSLNEGOTIATION REQUIREAUTH CHANNELBINDING GSSENCMODE HOSTADDR SERVICE';
  const all = Object.fromEntries(names.split(' ').map((name) => [`PG${name}`, 'secret']));
  const rule = (list: string) =>
    `must say how to connect, because the service does not read ${list}; write it into DATABASE_URL, with an sslmode`;
  for (const name of Object.keys(all))
    expect(() => postgresUrl(DATABASE_URL, { [name]: 'secret' })).toThrow(new Error(rule(name)));
  const both = { PGSSLMODE: 'disable', PGSSLCERT: 'secret' };
  expect(() => postgresUrl(DATABASE_URL, both)).toThrow(new Error(rule('PGSSLMODE and PGSSLCERT')));
  for (const mode of ['disable', 'require']) {
    const address = `${DATABASE_URL}?sslmode=${mode}`;
    expect(postgresUrl(address, all)).toBe(address);
  }
  const others = { PGSSLMODE: '', PGHOST: 'x', PGPORT: 'x', PGPASSWORD: 'x', PGOPTIONS: 'x', XPGSSLMODE: 'x' };
  expect(postgresUrl(DATABASE_URL, others)).toBe(DATABASE_URL);
});
