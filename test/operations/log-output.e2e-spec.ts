import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { stripVTControlCharacters } from 'node:util';
import { expect, it, onTestFinished } from 'vitest';
import { endWithUs } from '../../dev/child.ts';
import { createDatabase } from '../support/database.ts';
import { ServiceProcess } from '../support/service-process.ts';

/** Runs these statements with a log, in a process of its own. */
function startLog(statements: string, launcher: readonly string[] = [], before = '') {
  const script = `${before};
    const { Log } = await import('./dist/operations/log.js');
    const log = new Log({ LOG_LEVEL: 'info' });
    ${statements};
    await log.close();
    console.error(log.dropped);
    process.exit();`;
  const [program, ...args] = [...launcher, process.execPath, '--input-type=module', '-e', script];
  const child = spawn(program, args, { stdio: 'pipe' });
  endWithUs(child, 'KILL');
  return { child, errors: text(child.stderr) };
}

it('the log is text in a terminal, to its last line, and JSON without pino-pretty', async () => {
  const terminal = 'process.stdout.isTTY = true';
  const lateWrites = `(await import('node:fs')).default.write = () => undefined`; // at the end they would come too late
  const missing = `(await import('node:module')).registerHooks({
    resolve: (name, context, next) => next(name === 'pino-pretty' ? 'no-such-package' : name, context) })`;
  const printed = (before: string) => text(startLog(`log.info('last')`, [], `${terminal};${before}`).child.stdout);
  const [pretty, json] = await Promise.all([printed(lateWrites), printed(missing)]);
  expect(stripVTControlCharacters(pretty)).toMatch(/^\[\d\d:\d\d:\d\d\] INFO: last\n$/);
  expect(JSON.parse(json)).toMatchObject({ level: 'info', msg: 'last' });
});

it('the log keeps 16 MiB that nobody reads, counts what it drops, and gives its end a second', async () => {
  const { child, errors } = startLog(`for (let n = 0; n < 20; n++) log.info('x'.repeat(2 ** 20 - 1_000));
    setTimeout(() => console.error('waits'), 800); setTimeout(() => console.error('waits too long'), 1_500)`);
  child.stdout.pause();
  expect(await errors).toBe('waits\n4\n');
});

it('the log continues when another process reads the pipe, and is complete at its end although the reader is slow', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'inventory-log-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const pipe = join(folder, 'pipe');
  execFileSync('mkfifo', [pipe]);
  let seen = '';
  const read = () => {
    const reader = spawn('cat', [pipe], { stdio: ['ignore', 'pipe', 'ignore'] });
    reader.stdout.on('data', (bytes: Buffer) => (seen += String(bytes)));
    endWithUs(reader, 'KILL');
    return reader;
  };
  const sees = (line: string) => expect.poll(() => seen).toContain(`"${line}"`);
  let reader: ChildProcess = read();
  const eachLine = `for await (const line of (await import('node:readline')).createInterface({ input: process.stdin }))
    { log.info(line); setTimeout(() => console.error(line), 200) }`; // it tries to write within 100 ms
  const { child, errors } = startLog(eachLine, ['sh', '-c', 'exec "$@" >"$0"', pipe]);
  child.stdin.write('first\n');
  await sees('first');
  reader.kill();
  await once(reader, 'exit');
  const tried = once(child.stderr, 'data');
  child.stdin.write('unread\n');
  await tried;
  reader = read();
  await sees('unread');

  reader.kill('SIGSTOP');
  child.stdin.end(`${'x'.repeat(100_000)}\nlast\n`); // more than a pipe holds
  await once(child.stderr, 'data');
  reader.kill('SIGCONT');
  await sees('last');
  expect(await errors).toMatch(/\n0\n$/);
});

const crashOnSignal = `data:text/javascript,${encodeURIComponent(
  `process.on('SIGUSR2', async () => { throw new Error('boom psk_' + 'x'.repeat(48)); })`,
)}`;

it.each([
  ['SIGUSR2', 'SIGTERM', 'unhandledRejection'],
  ['SIGTERM', 'SIGUSR2', 'SIGTERM'],
] as const)('a crash drains the service, and it exits with 1: after %s and %s', async (first, second, reason) => {
  const { url } = await createDatabase();
  const settings = { DATABASE_URL: url, DRAIN_DELAY_MS: '2000' };
  const service = await ServiceProcess.running(settings, { nodeOptions: ['--import', crashOnSignal] });
  service.signal(first);
  expect(await service.line(({ msg }) => msg === 'draining')).toMatchObject({ reason });
  service.signal(second);
  const err = { message: 'boom [key]', stack: expect.stringContaining('at ') as string };
  expect(await service.line(({ msg }) => msg === 'unhandledRejection')).toMatchObject({ level: 'error', err });
  expect((await service.ended).code).toBe(1);
  expect(service.lines().at(-1)).toMatchObject({ msg: 'stopped' });
  expect(service.lines().filter(({ msg }) => msg === 'draining')).toHaveLength(1);
});
