import { Failure, postgresUrl, withPasswordFile } from './lib/postgres/index.ts';
import { bearerToken, fraction, httpUrl, integer, listenAddress, oneOf, originList } from './setting-values.ts';

/** The version segment of the base address (docs/interface.md, section 9). */
export const API_PREFIX = 'v1';

/** The most that REQUEST_DEADLINE_MS may be. */
export const LONGEST_DEADLINE_MS = 9_000;

const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;

type Environment = Readonly<Record<string, string | undefined>>;

/** @param fallback the text of a setting that is not given */
function entry<T>(meaning: string, fallback: string, read: (text: string, environment: Environment) => T) {
  return { meaning, default: fallback, read };
}

const SAMPLERS = ['always_on', 'always_off', 'traceidratio'] as const;
const otlp = oneOf('http/protobuf');

/** A variable of OpenTelemetry may be meant for other programs: it counts only if traces are on and it is not empty. */
function traceEntry<T>(meaning: string, fallback: string, read: (text: string, environment: Environment) => T) {
  const counts = (text: string, environment: Environment) => text !== '' && environment['OTEL_EXPORTER_OTLP_ENDPOINT'];
  return entry(meaning, fallback, (text, environment) =>
    read(counts(text, environment) ? text : fallback, environment),
  );
}

/** Every setting, in the order of the table in docs/operations.md, which is checked against this one. */
export const SETTINGS = {
  DATABASE_URL: entry('PostgreSQL connection string (required)', '', postgresUrl),
  DATABASE_PASSWORD_FILE: entry('File with the password, if DATABASE_URL has none', '', String),
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
    'How long a request waits for the database, in ms',
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
  OTEL_EXPORTER_OTLP_ENDPOINT: entry('Collector of traces, such as http://collector:4318; empty: none', '', httpUrl),
  OTEL_EXPORTER_OTLP_PROTOCOL: traceEntry(
    'Protocol of the collector: http/protobuf',
    'http/protobuf',
    (text, environment) => otlp(environment['OTEL_EXPORTER_OTLP_TRACES_PROTOCOL'] ? 'http/protobuf' : text),
  ),
  OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: traceEntry('The same, for traces alone', 'http/protobuf', otlp),
  OTEL_TRACES_SAMPLER: traceEntry(
    'always_on, always_off, traceidratio; also after parentbased_',
    'parentbased_always_on',
    oneOf(...SAMPLERS, ...SAMPLERS.map((name) => `parentbased_${name}` as const)),
  ),
  OTEL_TRACES_SAMPLER_ARG: traceEntry('Share of traces for traceidratio, from 0 to 1', '1', fraction),
};

export type SettingName = keyof typeof SETTINGS;

export type Settings = { readonly [Name in SettingName]: ReturnType<(typeof SETTINGS)[Name]['read']> };

/** The token by which NestJS injects {@link Settings}. */
export const Settings = class Settings {};

/** What the server's drain needs to know. */
export function drainTimes({ DRAIN_DELAY_MS, DRAIN_TIMEOUT_MS }: Settings) {
  return { delayMs: DRAIN_DELAY_MS, timeoutMs: DRAIN_TIMEOUT_MS };
}

/**
 * Besides the container's `health-check.ts`, the service reads `process.env` only here. OpenTelemetry's packages, which
 * `operations/tracing.ts` loads, read their other standard variables themselves, such as OTEL_SERVICE_NAME.
 * @throws Failure with a line for each missing or malformed setting, without a secret
 */
export function readSettings(source: Environment = process.env): Settings {
  const faults: string[] = [];
  const values: Record<string, unknown> = {};
  for (const [name, { default: fallback, read }] of Object.entries(SETTINGS)) {
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
