import { type ChildProcess, spawn, type SpawnOptions } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:os';

export type Child = Awaited<ReturnType<typeof startChild>>;

/**
 * Starts a program that a Ctrl-C in the terminal does not reach, and that does not outlive this process, not even a
 * `kill -9`: a shell waits at the end of a pipe that the kernel then closes.
 *
 * @param lastSignal the signal that the program and its children get when this process is gone
 * @param throwawayFolder a folder to remove a second after that
 */
export async function startChild(
  [program = '', ...args]: readonly string[],
  lastSignal: 'INT' | 'TERM',
  options: SpawnOptions,
  throwawayFolder = '',
) {
  const child = spawn(program, args, { ...options, detached: true });
  await once(child, 'spawn');
  endWithUs(child, lastSignal, throwawayFolder);
  /** Settles when it is gone, with its exit code, or 128 and the signal's number, as shells count. */
  const ended = once(child, 'exit').then(
    () => child.exitCode ?? 128 + constants.signals[child.signalCode ?? 'SIGKILL'],
  );
  return { process: child, ended };
}

/** The same for a program that was started `detached`. */
export function endWithUs(child: ChildProcess, lastSignal: 'INT' | 'TERM' | 'KILL', throwawayFolder = ''): void {
  const script = 'cat; kill -$1 -$0; kill -CONT -$0; if [ -n "$2" ]; then sleep 1; rm -rf "$2"; fi';
  const guard = spawn('/bin/sh', ['-c', script, String(child.pid), lastSignal, throwawayFolder], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  guard.on('error', () => undefined); // Windows has no such shell
  guard.unref();
  child.once('exit', () => guard.kill('SIGKILL')); // the id may be given to another program now
}
