import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { SettingName } from '../../src/settings.ts';

const MAIN = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
const STARTED_WITHIN_MS = 15_000;

export type LogLine = Readonly<Record<string, unknown>>;

/** The built service as an operator runs it, with its log. */
export interface ServiceProcess {
  readonly url: string;
  readonly port: number;
  /** Everything on standard output and standard error so far. */
  log(): string;
  /** The log's lines so far, each of which must be JSON. */
  lines(): LogLine[];
  /** Waits for a line, at most 5 s. */
  line(wanted: (line: LogLine) => boolean): Promise<LogLine>;
  signal(name: NodeJS.Signals): void;
  /** Its exit code, once all of its log is here. */
  readonly ended: Promise<number | null>;
  /** Ends it, whatever its state. */
  kill(): Promise<void>;
}

/**
 * Starts `node dist/main.js` on a free port and waits until it is ready; with a silent log, until it answers.
 *
 * @param settings its whole environment; LOG_LEVEL must be `info` or lower for the port to be known
 * @param nodeOptions such as a module to preload
 */
export async function startServiceProcess(
  settings: Partial<Record<SettingName, string>>,
  nodeOptions: readonly string[] = [],
): Promise<ServiceProcess> {
  const child = spawn(process.execPath, [...nodeOptions, MAIN], {
    env: { PORT: '0', HOST: '127.0.0.1', NODE_ENV: 'production', ...settings },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let log = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (log += text));
  const ended = once(child, 'close').then(() => child.exitCode);
  const lines = () =>
    log
      .slice(0, log.lastIndexOf('\n') + 1)
      .split('\n')
      .filter((text) => text !== '')
      .map((text) => JSON.parse(text) as LogLine);
  const line = async (wanted: (line: LogLine) => boolean, withinMs = 5_000) => {
    const deadline = performance.now() + withinMs;
    for (;;) {
      const found = lines().find(wanted);
      if (found) return found;
      if (performance.now() > deadline || child.exitCode !== null) throw new Error(`no such line in the log:\n${log}`);
      await pause(10);
    }
  };
  const { port } = (await line(({ msg }) => msg === 'listening', STARTED_WITHIN_MS)) as { port?: number };
  if (port === undefined) throw new Error('it does not say its port');
  await line(({ msg }) => msg === 'ready', STARTED_WITHIN_MS);
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    log: () => log,
    lines,
    line,
    signal: (name) => child.kill(name),
    ended,
    async kill() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}
