import { Worker } from 'node:worker_threads';

const WATCH = `
  const { parentPort } = require('node:worker_threads');
  let test, beats = 1;
  parentPort.on('message', (name) => ((test = name), beats++));
  setInterval(() => {
    if (beats === 0) require('node:fs').writeSync(2, 'A loop has no end: ' + test + '\\n');
    if (beats === 0) process.kill(process.pid, 'SIGKILL');
    beats = 0;
  }, 60_000);`;
const watcher = new Worker(WATCH, { eval: true });
watcher.unref();

let present: string | undefined;
setInterval(() => watcher.postMessage(present), 1_000).unref();

/** Ends this process when a loop in a test holds it for a minute. Vitest would wait for it. */
export function watch(test: string): void {
  watcher.postMessage((present = test));
}
