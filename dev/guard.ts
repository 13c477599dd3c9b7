import { spawn } from 'node:child_process';

/**
 * Sees to it that another process does not outlive this one, not even when this one is killed: a shell waits at the end of a
 * pipe, and the kernel closes the pipe.
 *
 * @param pid the process to end
 * @param signal what to send it
 * @param throwawayFolder a folder to remove a second later
 * @returns takes the guard away; call it once the process has ended, for its id may be given to another one
 */
export function guard(pid: number, signal: 'INT' | 'TERM', throwawayFolder = ''): () => void {
  if (process.platform === 'win32') return () => undefined;
  const script = 'cat; kill -$1 $0; if [ -n "$2" ]; then sleep 1; rm -rf "$2"; fi';
  const shell = spawn('/bin/sh', ['-c', script, String(pid), signal, throwawayFolder], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  shell.unref();
  return () => shell.kill('SIGKILL');
}
