import { Failure, postgresUrl, withPasswordFile } from './lib/postgres/index.ts';
import { bearerToken, fraction, httpUrl, integer, listenAddress, oneOf, originList } from './setting-values.ts';

/** The version segment of the base address (docs/interface.md, section 9). */
export const API_PREFIX = 'v1';

/** The most that REQUEST_DEADLINE_MS may be. */
export const LONGEST_DEADLINE_MS = 9_000;

const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;

type Environment = Readonly<Record<string, string | undefined>>;

/** @param fallback the text of a setting that is not given */
function entry<T>(fallback: string, read: (text: string, environment: Environment) => T) {
  return { default: fallback, read };
}

/** Every setting but those of traces. The table in docs/operations.md says what each means; a test compares both. */
export const SETTINGS = {
  DATABASE_URL: entry('', postgresUrl),
  DATABASE_PASSWORD_FILE: entry('', String),
  PORT: entry('3000', integer(0, 65_535)),
  HOST: entry('0.0.0.0', listenAddress),
  BOOTSTRAP_API_KEY: entry('', bearerToken),
  LOG_LEVEL: entry('info', oneOf(...LOG_LEVELS)),
  LOG_SUCCESS_EVERY: entry('1', integer(1, 1_000_000)),
  RATE_LIMIT_PER_MINUTE: entry('0', integer(0, 100_000_000)),
  CORS_ORIGINS: entry('', originList),
  DOCS: entry('on', oneOf('on', 'off')),
  FAST: entry('on', oneOf('on', 'off')),
  DATABASE_POOL_SIZE: entry('4', integer(1, 100)),
  REQUEST_DEADLINE_MS: entry('2500', integer(100, LONGEST_DEADLINE_MS)),
  MAX_WAITING_REQUESTS: entry('2000', integer(1, 100_000)),
  DRAIN_DELAY_MS: entry('0', integer(0, 600_000)),
  DRAIN_TIMEOUT_MS: entry('25000', integer(100, 600_000)),
};

/** By OpenTelemetry's rules: an endpoint turns traces on, unless one of these two turns them off. */
function hasTraces(given: Environment): boolean {
  if (given['OTEL_SDK_DISABLED']?.toLowerCase() === 'true' || given['OTEL_TRACES_EXPORTER'] === 'none') return false;
  return Boolean(given['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT']) || Boolean(given['OTEL_EXPORTER_OTLP_ENDPOINT']);
}

/**
 * A variable of OpenTelemetry may be meant for other programs: it counts only if traces are on, it is not empty, and
 * traces have none of their own.
 */
function traceEntry<T>(fallback: string, read: (text: string) => T, own = '') {
  const counts = (text: string, given: Environment) => text !== '' && hasTraces(given) && !given[own];
  return entry(fallback, (text, given) => read(counts(text, given) ? text : fallback));
}

function baseUrl(text: string): string | undefined {
  if (/\/v1\/traces\/?$/.test(text))
    throw new Error('must not end with /v1/traces, which is added; or use OTEL_EXPORTER_OTLP_TRACES_ENDPOINT');
  return httpUrl(text);
}

const SAMPLERS = ['always_on', 'always_off', 'traceidratio'] as const;
const protocol = oneOf('http/protobuf');

const TRACES = {
  OTEL_SDK_DISABLED: entry('', (_, given) => !hasTraces(given)),
  OTEL_TRACES_EXPORTER: traceEntry('otlp', oneOf('otlp', 'none')),
  OTEL_EXPORTER_OTLP_ENDPOINT: traceEntry('', baseUrl, 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: traceEntry('', httpUrl),
  OTEL_EXPORTER_OTLP_PROTOCOL: traceEntry('http/protobuf', protocol, 'OTEL_EXPORTER_OTLP_TRACES_PROTOCOL'),
  OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: traceEntry('http/protobuf', protocol),
  OTEL_TRACES_SAMPLER: traceEntry(
    'parentbased_always_on',
    oneOf(...SAMPLERS, ...SAMPLERS.map((name) => `parentbased_${name}` as const)),
  ),
  OTEL_TRACES_SAMPLER_ARG: traceEntry('1', fraction),
};

/** Those of OpenTelemetry that count, as docs/operations.md lists them. Its packages read what is not in `TRACES`. */
export const OTEL_VARIABLES = [
  ...Object.keys(TRACES),
  ...['OTEL_SERVICE_NAME', 'OTEL_RESOURCE_ATTRIBUTES'],
  ...['HEADERS', 'TIMEOUT', 'COMPRESSION', 'CERTIFICATE', 'CLIENT_CERTIFICATE', 'CLIENT_KEY'].flatMap((name) => [
    `OTEL_EXPORTER_OTLP_${name}`,
    `OTEL_EXPORTER_OTLP_TRACES_${name}`,
  ]),
];

/** Names of OpenTelemetry's variables that are set and do not count. */
export function unusedVariables(source: Environment = process.env): string[] {
  const isUnused = (name: string) => name.startsWith('OTEL_') && source[name] && !OTEL_VARIABLES.includes(name);
  return Object.keys(source).filter(isUnused);
}

const ALL = { ...SETTINGS, ...TRACES };

export type SettingName = keyof typeof ALL;

export type Settings = { readonly [Name in SettingName]: ReturnType<(typeof ALL)[Name]['read']> };

/** The token by which NestJS injects {@link Settings}. */
export const Settings = class Settings {};

/**
 * Besides the container's `health-check.ts` and OpenTelemetry's packages, the service reads `process.env` only here.
 * @throws Failure with a line for each missing or malformed setting
 */
export function readSettings(source: Environment = process.env): Settings {
  const faults: string[] = [];
  const values: Record<string, unknown> = {};
  for (const [name, { default: fallback, read }] of Object.entries(ALL)) {
    try {
      values[name] = read(source[name] ?? fallback, source);
      const { DATABASE_URL: url, DATABASE_PASSWORD_FILE: file } = values as Partial<Settings>;
      if (name === 'DATABASE_PASSWORD_FILE' && url && file) values['DATABASE_URL'] = withPasswordFile(url, file);
    } catch (error) {
      faults.push(`${name} ${(error as Error).message}`);
    }
  }
  if (faults.length > 0) throw new Failure(faults.join('\n'));
  return values as Settings;
}
