import { spawn, type ChildProcess } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { SEMI_SPACE } from '../../dev/build.ts';
import { endWithUs } from '../../dev/child.ts';
import { freePort } from '../../dev/free-port.ts';
import { ask } from './http-client.ts';
import { PATIENCE_MS } from './patience.ts';
import { atTestEnd } from './test-end.ts';

const MAIN = fileURLToPath(new URL('../../dist/main.js', import.meta.url));

export type LogLine = Readonly<Record<string, unknown>>;

/** The complete lines of a log. Each of them must be JSON. */
export function linesOf(log: string): LogLine[] {
  return (log.match(/.+(?=\n)/g) ?? []).map((text) => {
    if (!text.startsWith('{')) throw new Error(`the log has a line that is not JSON: ${text}`);
    return JSON.parse(text) as LogLine;
  });
}

interface Options {
  readonly name?: string;
  /** Options of Node.js, for example a module to preload. */
  readonly nodeOptions?: readonly string[];
  /** A command that becomes the service, for example a shell that sets limits first. */
  readonly launcher?: readonly string[];
}

/** The built service in a process of its own, as `npm run start:prod` runs it. It keeps its port across restarts. */
export class ServiceProcess {
  readonly name: string;
  readonly port: number;
  /** Everything on standard output and standard error so far. */
  log = '';
  /** How the last started process ended, once its whole log has arrived. `at` is in monotonic milliseconds. */
  ended: Promise<{ code: number | null; signal: NodeJS.Signals | null; at: number }>;
  /** Monotonic milliseconds at which the last kill -9 had ended it. */
  killedAt = -Infinity;
  private child: ChildProcess | undefined;
  private readonly settings: NodeJS.ProcessEnv;
  private readonly command: readonly string[];

  private constructor(port: number, settings: NodeJS.ProcessEnv, options: Options) {
    const { name = 'service', nodeOptions = [], launcher = [] } = options;
    this.name = name;
    this.port = port;
    this.settings = settings;
    this.command = [...launcher, process.execPath, SEMI_SPACE, ...nodeOptions, MAIN];
    this.ended = Promise.reject(new Error('not started'));
    this.ended.catch(() => undefined);
  }

  /**
   * Prepares a service that does not run yet. A test kills it when it ends.
   *
   * @param settings its whole environment; HOST and PORT may be left out
   */
  static async onFreePort(settings: NodeJS.ProcessEnv, options: Options = {}): Promise<ServiceProcess> {
    const service = new ServiceProcess(await freePort(), settings, options);
    await atTestEnd(() => service.kill());
    return service;
  }

  /** Prepares a service, starts it and waits until it is ready. */
  static async running(settings: NodeJS.ProcessEnv, options: Options = {}): Promise<ServiceProcess> {
    const service = await ServiceProcess.onFreePort(settings, options);
    service.start();
    await service.becomesReady();
    return service;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Starts the process. The service may need a moment until it responds. */
  start(): void {
    const listen = { HOST: '127.0.0.1', PORT: String(this.port) };
    const [program = '', ...args] = this.command;
    const { NODE_COMPILE_CACHE } = process.env;
    const child = spawn(program, args, {
      env: { NODE_ENV: 'production', NODE_COMPILE_CACHE, ...listen, ...this.settings },
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => (this.log += text));
    }
    this.child = child;
    endWithUs(child, 'KILL');
    this.ended = new Promise((resolve) => {
      let at = 0;
      child.on('exit', () => {
        at = performance.now();
      });
      child.on('close', (code, signal) => resolve({ code, signal, at }));
    });
  }

  /** Waits until the service is ready. @throws when the process ends, or it takes too long */
  async becomesReady(): Promise<void> {
    for (const deadline = performance.now() + PATIENCE_MS; (await this.health('ready')) !== 200;) {
      if (!this.isRunning) throw new Error(`${this.name} ended at its start: ${this.lastLogLines()}`);
      if (performance.now() > deadline) throw new Error(`${this.name} is not ready: ${this.lastLogLines()}`);
      await pause(20);
    }
  }

  /** The status of a health probe, or undefined after 3 s without a response. */
  async health(probe: 'live' | 'ready'): Promise<number | undefined> {
    const answer = ask(this.port, { target: `/health/${probe}` }, { withinMs: 3_000 });
    return (await answer.catch(() => undefined))?.status;
  }

  signal(signal: NodeJS.Signals): void {
    this.child?.kill(signal);
  }

  /** Sends SIGTERM and waits for the end. @returns the exit code */
  async terminate(): Promise<number | null> {
    this.signal('SIGTERM');
    return (await this.ended).code;
  }

  /** Sends SIGKILL to a running process. */
  async kill(): Promise<void> {
    if (!this.isRunning) return;
    this.killedAt = Infinity; // the kernel may accept connections until the process has ended
    this.signal('SIGKILL');
    this.killedAt = (await this.ended).at;
  }

  get isRunning(): boolean {
    return this.child?.exitCode === null && this.child.signalCode === null;
  }

  lines(): LogLine[] {
    return linesOf(this.log);
  }

  /** Waits for a line. @throws when the process ends, or it takes too long */
  async line(wanted: (line: LogLine) => boolean): Promise<LogLine> {
    for (const deadline = performance.now() + PATIENCE_MS; ;) {
      const found = this.lines().find(wanted);
      if (found) return found;
      if (performance.now() > deadline || !this.isRunning) throw new Error(`no such line in the log:\n${this.log}`);
      await pause(10);
    }
  }

  lastLogLines(): string {
    const last = this.log.trimEnd().split('\n').slice(-5);
    return last.map((line) => line.slice(0, 300)).join('\n');
  }

  /** The number of open files and sockets. */
  openDescriptors(): number {
    return readdirSync(`/proc/${this.pid}/fd`).length;
  }

  private get pid(): number {
    if (this.child?.pid === undefined) throw new Error(`${this.name} is not running`);
    return this.child.pid;
  }
}
