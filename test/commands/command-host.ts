import { Console } from 'node:console';
import { openSync } from 'node:fs';
import { Readable, Writable } from 'node:stream';

/** Runs commands one after another for {@link inventory}. It ends with the process that started it. */

export interface Job {
  readonly args: readonly string[];
  readonly input: string | Buffer;
  /** The whole environment of the command. */
  readonly env: NodeJS.ProcessEnv;
  readonly cwd: string;
  /** How far the clock of its machine is ahead. */
  readonly clockAheadMs: number;
}

export interface Reply {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly isReusable: boolean;
}

const dist = new URL('../../dist/commands/', import.meta.url);
const { runCommand } = (await import(
  new URL('command-line.js', dist).href
)) as typeof import('../../src/commands/command-line.ts');
const connection = (await import(
  new URL('connection.js', dist).href
)) as typeof import('../../src/commands/connection.ts');

const { now } = Date;

async function run({ args, input, env, cwd, clockAheadMs }: Job): Promise<Reply> {
  const [stdout, stderr] = [new Output(), new Output()];
  for (const [name, value] of Object.entries({ stdin: Readable.from([Buffer.from(input)]), stdout, stderr }))
    Object.defineProperty(process, name, { value, configurable: true });
  globalThis.console = new Console(stdout, stderr);
  process.env = env;
  process.chdir(cwd);
  Date.now = () => now() + clockAheadMs;
  const code = await runCommand(args);
  return { code, stdout: stdout.text(), stderr: stderr.text(), isReusable: !connection.hasUnconfirmedCommit };
}

globalThis.Date = new Proxy(Date, {
  construct: (date, values) => Reflect.construct(date, values.length > 0 ? values : [Date.now()]) as Date,
});

const file = openSync(import.meta.filename, 'r');

class Output extends Writable {
  readonly fd = file; // which is not the null device
  private readonly chunks: Buffer[] = [];

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.chunks.push(chunk);
    done();
  }

  text(): string {
    return Buffer.concat(this.chunks).toString();
  }
}

process.on('message', (job: Job) => void run(job).then((reply) => process.send?.(reply)));
