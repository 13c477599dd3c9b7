import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { projectFolder } from './build.ts';
import { guard } from './guard.ts';

export interface Service {
  /** Settles when it answers that it is ready, with `false` when it ends before that. */
  readonly ready: Promise<boolean>;
  /** Its exit code, or 128 and the signal's number, as shells count. */
  readonly ended: Promise<number>;
  /** Lets it finish the requests under way. */
  stop(): void;
}

const nest = 'node_modules/@nestjs/cli/bin/nest.js';
const watched = [nest, 'start', '--watch', '--preserveWatchOutput', '--no-shell', '--exec', process.execPath];

/**
 * Starts the built service. It does not outlive this process, and a Ctrl-C in the terminal reaches it through `stop` alone.
 *
 * @param settings its environment
 * @param address where it will answer, for example `http://localhost:3000`
 * @param isWatched whether Nest builds and restarts it on every change
 */
export function startService(settings: NodeJS.ProcessEnv, address: string, isWatched = false): Service {
  const service = spawn(process.execPath, isWatched ? watched : ['dist/main.js'], {
    cwd: projectFolder,
    env: { ...settings, NODE_COMPILE_CACHE: 'node_modules/.cache/compiled' }, // a tenth of the time that it takes to start
    detached: true,
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  const removeGuard = guard(-(service.pid ?? 0), 'TERM'); // the whole group: Nest's child is part of it
  const ended = once(service, 'exit').then(([code, signal]: (number | NodeJS.Signals | null)[]) => {
    removeGuard();
    return typeof code === 'number' ? code : 128 + constants.signals[signal as NodeJS.Signals];
  });
  const stop = () => void service.kill('SIGTERM');
  return {
    ended,
    ready: untilReady(address, ended),
    stop() {
      stop();
      if (isWatched) setInterval(stop, 500).unref(); // while Nest starts the service anew, it has nobody to pass the first one to
    },
  };
}

async function untilReady(address: string, ended: Promise<number>): Promise<boolean> {
  let isOver = false as boolean;
  void ended.then(() => (isOver = true));
  while (!isOver) {
    const answer = await fetch(`${address}/health/ready`, { signal: AbortSignal.timeout(2_000) }).catch(
      () => undefined,
    );
    if (answer?.ok) return true;
    await sleep(200);
  }
  return false;
}
