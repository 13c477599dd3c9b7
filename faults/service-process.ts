import { spawn, type ChildProcess } from 'node:child_process';
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { freePort } from '../dev/free-port.ts';
import { HttpConnection } from './http-connection.ts';

const MAIN = fileURLToPath(new URL('../dist/main.js', import.meta.url));
const START_TIMEOUT_MS = 30_000;

/** How a service process ended. */
export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** Monotonic milliseconds. */
  readonly at: number;
}

/** The built service as an operator runs it: `node dist/main.js`, on the same port across restarts. */
export class ServiceProcess {
  private child: ChildProcess | undefined;
  /** Monotonic milliseconds at which the last kill -9 had ended it. */
  killedAt = -Infinity;
  /** Settles when the process that was started last has ended. */
  ended: Promise<Exit> = Promise.reject(new Error('not started'));
  readonly name: string;
  readonly port: number;
  private readonly settings: Record<string, string>;
  private readonly logFile: string;

  private constructor(name: string, port: number, settings: Record<string, string>, logFile: string) {
    this.name = name;
    this.port = port;
    this.settings = settings;
    this.logFile = logFile;
    this.ended.catch(() => undefined);
  }

  static async onFreePort(name: string, settings: Record<string, string>, logFile: string): Promise<ServiceProcess> {
    return new ServiceProcess(name, await freePort(), settings, logFile);
  }

  /** Starts the process; it may take a moment until it answers. */
  start(): void {
    const log = openSync(this.logFile, 'a');
    const child = spawn(process.execPath, [MAIN], {
      env: { NODE_ENV: 'production', ...this.settings, HOST: '127.0.0.1', PORT: String(this.port) },
      stdio: ['ignore', log, log],
    });
    closeSync(log);
    this.child = child;
    const endWithUs = () => child.kill('SIGKILL');
    process.on('exit', endWithUs);
    this.ended = new Promise((resolve) => {
      child.on('exit', (code, signal) => {
        process.off('exit', endWithUs);
        resolve({ code, signal, at: performance.now() });
      });
    });
  }

  /** @throws when the process ends or is not ready within 30 s */
  async becomesReady(): Promise<void> {
    const deadline = performance.now() + START_TIMEOUT_MS;
    while ((await this.health('ready')) !== 200) {
      if (!this.isRunning) throw new Error(`${this.name} ended at its start: ${this.lastLogLines()}`);
      if (performance.now() > deadline) throw new Error(`${this.name} is not ready: ${this.lastLogLines()}`);
      await sleep(50);
    }
  }

  /** The status of a health probe; undefined when nothing answered within 3 s. */
  async health(probe: 'live' | 'ready'): Promise<number | undefined> {
    const connection = await HttpConnection.open(this.port).catch(() => undefined);
    if (!connection) return undefined;
    const answer = connection.request('GET', `/health/${probe}`, {}).catch(() => undefined);
    const status = await Promise.race([answer.then((given) => given?.status), sleep(3_000, undefined, { ref: false })]);
    connection.close();
    return status;
  }

  signal(signal: NodeJS.Signals): void {
    this.child?.kill(signal);
  }

  /** kill -9; nothing when it does not run. */
  async kill(): Promise<void> {
    if (!this.isRunning) return;
    this.killedAt = Infinity; // it may accept a connection or two until it is gone
    this.signal('SIGKILL');
    this.killedAt = (await this.ended).at;
  }

  get isRunning(): boolean {
    return this.child?.exitCode === null && this.child.signalCode === null;
  }

  /** Resident memory in megabytes. */
  residentMb(): number {
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${this.pid}/status`, 'utf8'))?.[1]) / 1024;
  }

  /** Files and sockets the process holds open. */
  openDescriptors(): number {
    return readdirSync(`/proc/${this.pid}/fd`).length;
  }

  /** What the process noted of errors that nothing had caught. */
  uncaughtErrors(): string[] {
    return this.logLines().filter((line) => /"msg":"(uncaughtException|unhandledRejection)"/.test(line));
  }

  /** How often each request, by its id, is in the log; its level has to be `info`. */
  loggedRequests(): Map<string, number> {
    const times = new Map<string, number>();
    for (const line of this.logLines()) {
      const [, id] = /"requestId":"([^"]+)".*"msg":"request"/.exec(line) ?? [];
      if (id !== undefined) times.set(id, (times.get(id) ?? 0) + 1);
    }
    return times;
  }

  lastLogLines(): string {
    const last = this.logLines().slice(-5);
    return last.map((line) => line.slice(0, 300)).join('\n');
  }

  private logLines(): string[] {
    return readFileSync(this.logFile, 'utf8').trimEnd().split('\n');
  }

  private get pid(): number {
    if (this.child?.pid === undefined) throw new Error(`${this.name} is not running`);
    return this.child.pid;
  }
}
