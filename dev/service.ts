import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pretty from 'pino-pretty';
import { projectFolder } from './build.ts';
import { guard } from './guard.ts';

export interface Service {
  /** Settles when it answers that it is ready, with `false` when it ends before that. */
  readonly ready: Promise<boolean>;
  /** Its exit code, or 128 and the signal's number, as shells count. */
  readonly ended: Promise<number>;
  /** Lets it finish the requests under way; a second call is the same as a second Ctrl-C. */
  stop(): void;
}

/**
 * Starts the built service. It does not outlive this process, and a Ctrl-C in the terminal reaches it through `stop` alone.
 *
 * @param settings its environment
 * @param address where it will answer, for example `http://localhost:3000`
 */
export function startService(settings: NodeJS.ProcessEnv, address: string): Service {
  const forPeople = process.stdout.isTTY;
  const service = spawn(process.execPath, [join(projectFolder, 'dist/main.js')], {
    env: settings,
    detached: true,
    stdio: ['ignore', forPeople ? 'pipe' : 'inherit', 'inherit'],
  });
  if (forPeople)
    service.stdout?.pipe(pretty({ ignore: 'pid,hostname', translateTime: 'HH:MM:ss.l', singleLine: true }));
  const removeGuard = guard(service.pid ?? 0, 'TERM');
  const ended = once(service, 'exit').then(([code, signal]: (number | NodeJS.Signals | null)[]) => {
    removeGuard();
    return typeof code === 'number' ? code : 128 + constants.signals[signal as NodeJS.Signals];
  });
  return { ended, ready: untilReady(address, ended), stop: () => void service.kill('SIGTERM') };
}

async function untilReady(address: string, ended: Promise<number>): Promise<boolean> {
  const end = new AbortController();
  void ended.then(() => {
    end.abort();
  });
  while (!end.signal.aborted) {
    const isReady = await fetch(`${address}/health/ready`, { signal: AbortSignal.timeout(2_000) }).then(
      (answer) => answer.ok,
      () => false,
    );
    if (isReady) return true;
    await sleep(200);
  }
  return false;
}
