// `.ts` and not `.js`: the programs of dev/ run this file from its source, where there is no `.js`.
import { isIP } from 'node:net';
import { postgresUrl } from './lib/postgres/database-url.ts';
import { PASSWORD_FILE, passwordReader } from './lib/postgres/password-file.ts';
import { Failure } from './operations/error-text.ts';
import { beyond, kindOfText, mustBe } from './lib/http/value-kinds.ts';

/** The version segment of the base address (docs/interface.md, section 9). */
export const API_PREFIX = 'v1';

/** The most that REQUEST_DEADLINE_MS may be. */
export const LONGEST_DEADLINE_MS = 9_000;

const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;

function refuse(form: string, text: string, verb?: string): never {
  throw new Error(mustBe(form, kindOfText(text), verb));
}

function integer(min: number, max: number) {
  const form = `an integer from ${min} to ${max}`;
  return (text: string): number => {
    if (!/^\d+$/.test(text)) refuse(form, text);
    const value = Number(text);
    if (value < min || value > max) throw new Error(mustBe(form, beyond(value, value > max)));
    return value;
  };
}

function oneOf<const T extends string>(...choices: readonly T[]) {
  return (text: string): T => {
    const choice = choices.find((each) => each === text);
    return choice ?? refuse(`one of ${choices.join(', ')}`, text);
  };
}

/** Others would be looked up as names in vain. Node.js listens on all addresses for an empty one. */
function listenAddress(text: string): string {
  if (isIP(text) === 0 && !/^[\p{L}\p{N}._-]*$/u.test(text)) refuse('an IP address or a host name', text);
  return text;
}

function passwordFile(file: string): string | undefined {
  if (file === '') return undefined;
  passwordReader(file); // throws when there is none
  return file;
}

function bearerToken(text: string): string | undefined {
  if (text === '') return undefined;
  if (!/^[A-Za-z0-9._~+/-]{32,256}=*$/.test(text) || text.length > 256) {
    refuse('32 to 256 characters of A-Z a-z 0-9 . _ ~ + / - (RFC 6750)', text);
  }
  return text;
}

/** An origin as a browser sends it. */
function isOrigin(text: string): boolean {
  return /^https?:\/\/[\w.:[\]-]+$/.test(text) && URL.canParse(text) && new URL(text).origin === text;
}

function originList(text: string): string[] {
  const origins = text.split(',').filter((part) => part !== '');
  const wrong = origins.find((origin) => !isOrigin(origin));
  const form = 'origins as a browser sends them, such as https://shop.example, separated by commas';
  return wrong === undefined ? origins : refuse(form, wrong, 'has');
}

type Environment = Readonly<Record<string, string | undefined>>;

/** @param fallback the text of a setting that is not given */
function entry<T>(meaning: string, fallback: string, read: (text: string, environment: Environment) => T) {
  return { meaning, default: fallback, read };
}

/** Every setting, in the order of the table in docs/operations.md, which is checked against this one. */
export const SETTINGS = {
  DATABASE_URL: entry('PostgreSQL connection string (required)', '', postgresUrl),
  DATABASE_PASSWORD_FILE: entry('File with the password, if DATABASE_URL has none', '', passwordFile),
  PORT: entry('TCP port to listen on; 0 picks a free one', '3000', integer(0, 65_535)),
  HOST: entry('Address to listen on; empty: IPv4 and IPv6', '0.0.0.0', listenAddress),
  BOOTSTRAP_API_KEY: entry('A key with every scope; 32 to 256 of A-Za-z0-9._~+/-', '', bearerToken),
  LOG_LEVEL: entry(LOG_LEVELS.join(', '), 'info', oneOf(...LOG_LEVELS)),
  LOG_SUCCESS_EVERY: entry('Log one of every N successful requests, and all failures', '1', integer(1, 1_000_000)),
  RATE_LIMIT_PER_MINUTE: entry('Requests per minute, key and process; 0 is no limit', '0', integer(0, 100_000_000)),
  CORS_ORIGINS: entry('Origins whose pages may call the service, separated by commas', '', originList),
  DOCS: entry('Serve Swagger UI and the OpenAPI document: on, off', 'on', oneOf('on', 'off')),
  FAST: entry('Keep the list in memory and batch updates: on, off', 'on', oneOf('on', 'off')),
  DATABASE_POOL_SIZE: entry('Size of the pool; the service opens two more, and one per audit', '4', integer(1, 100)),
  REQUEST_DEADLINE_MS: entry(
    'Longest time until the database responds to a request, in ms',
    '2500',
    integer(100, LONGEST_DEADLINE_MS),
  ),
  MAX_WAITING_REQUESTS: entry('Most requests that wait for the database; others get 503', '2000', integer(1, 100_000)),
  DRAIN_DELAY_MS: entry(
    'On SIGTERM, time for balancers to see that the service is not ready',
    '0',
    integer(0, 600_000),
  ),
  DRAIN_TIMEOUT_MS: entry('On SIGTERM, longest time for open requests', '25000', integer(100, 600_000)),
};

export type SettingName = keyof typeof SETTINGS;

export type Settings = { readonly [Name in SettingName]: ReturnType<(typeof SETTINGS)[Name]['read']> };

/** The token by which NestJS injects {@link Settings}. */
export const Settings = class Settings {};

/** The service reads `process.env` nowhere else. @throws Failure with a line for each missing or malformed setting, without its value */
export function readSettings(source: Environment = process.env): Settings {
  const faults: string[] = [];
  const values: Record<string, unknown> = {};
  for (const [name, { default: fallback, read }] of Object.entries(SETTINGS)) {
    try {
      values[name] = read(source[name] ?? fallback, source);
    } catch (error) {
      faults.push(`${name} ${(error as Error).message}`);
    }
  }
  if (faults.length > 0) throw new Failure(faults.join('\n'));
  const settings = values as Settings;
  const { DATABASE_URL, DATABASE_PASSWORD_FILE: file } = settings;
  return file === undefined ? settings : { ...settings, DATABASE_URL: withPasswordFile(DATABASE_URL, file) };
}

/** The path and not the password: each new connection reads the file. */
function withPasswordFile(databaseUrl: string, file: string): string {
  const url = new URL(databaseUrl);
  if (url.password || url.searchParams.has('password'))
    throw new Failure('DATABASE_PASSWORD_FILE must not be set where DATABASE_URL has a password');
  url.searchParams.set(PASSWORD_FILE, file);
  return url.href;
}
