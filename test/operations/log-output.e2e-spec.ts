import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { endWithUs } from '../../dev/child.ts';
import { type Database, createDatabase } from '../support/database.ts';
import { ask } from '../support/http-client.ts';
import { ServiceProcess } from '../support/service-process.ts';

const crashOnSignal = (async = '') =>
  `data:text/javascript,${encodeURIComponent(
    `process.on('SIGUSR2', ${async} () => { throw new Error('boom psk_' + 'x'.repeat(48)); })`,
  )}`;

describe('the log', () => {
  let database: Database;

  beforeAll(async () => {
    database = await createDatabase();
  });

  const start = (settings = {}, nodeOptions: readonly string[] = []) =>
    ServiceProcess.running({ DATABASE_URL: database.url, ...settings }, { nodeOptions });

  it('is text in a terminal, to its last line, and JSON without pino-pretty', async () => {
    const terminal = 'data:text/javascript,process.stdout.isTTY = true';
    const missing = `import { registerHooks } from 'node:module';
      registerHooks({ resolve: (name, context, next) => next(name === 'pino-pretty' ? 'no-such-package' : name, context) });`;
    const [text, json] = await Promise.all([
      start({}, ['--import', `${terminal}; import fs from 'node:fs'; fs.write = () => undefined`]), // at the end it would come too late
      start({}, ['--import', `${terminal};${encodeURIComponent(missing)}`]),
    ]);
    await Promise.all([text.terminate(), json.terminate()]);
    for (const words of ['listening .+', 'ready', 'stopped'])
      expect(text.log).toMatch(RegExp(`^\\[\\d\\d:\\d\\d:\\d\\d\\] INFO: ${words}$`, 'm'));
    expect(json.lines().at(-1)).toMatchObject({ level: 'info', msg: 'stopped' });
  });

  it('keeps 16 MiB that nobody reads, counts what it drops, and gives its end a second', async () => {
    const script = `
      import { Log } from './dist/operations/log.js';
      const log = new Log({ LOG_LEVEL: 'info' });
      for (let n = 0; n < 20; n++) log.info('x'.repeat(2 ** 20 - 1_000));
      setTimeout(() => console.error('waits'), 800);
      setTimeout(() => console.error('waits too long'), 1_500);
      await log.close();
      console.error(log.dropped);
      process.exit();`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'pipe'] });
    endWithUs(child, 'KILL');
    child.stdout.pause();
    let printed = '';
    child.stderr.on('data', (text: Buffer) => (printed += String(text)));
    await once(child, 'exit');
    expect(printed).toBe('waits\n4\n');
  });

  describe('into a named pipe', () => {
    const folder = mkdtempSync(join(tmpdir(), 'inventory-log-'));
    const pipe = join(folder, 'pipe');
    let service: ServiceProcess;
    let seen = '';
    let reader: ChildProcess;

    const read = () => {
      reader = spawn('cat', [pipe], { stdio: ['ignore', 'pipe', 'ignore'] });
      reader.stdout?.on('data', (bytes: Buffer) => (seen += String(bytes)));
    };
    const askAs = (id: string) => ask(service.port, { target: '/', headers: { 'X-Request-Id': id } });
    /** Stops the reader. @returns what it has not read */
    const fillPipe = async () => {
      reader.kill('SIGSTOP');
      // A little more than a pipe holds.
      const ids = Array.from({ length: 400 }, (_, n) => `id-${n}-`.padEnd(64, '-'));
      // Each uses its own connection, because the drain does not wait for those.
      for (const id of ids) await askAs(id);
      return ids;
    };
    const seesAll = (...wanted: readonly string[]) =>
      expect.poll(() => wanted.filter((each) => !seen.includes(each))).toEqual([]);

    beforeAll(() => execFileSync('mkfifo', [pipe]));
    beforeEach(async () => {
      const launcher = ['sh', '-c', 'exec "$@" >"$0"', pipe];
      service = await ServiceProcess.onFreePort({ DATABASE_URL: database.url }, { launcher });
      seen = '';
      read();
      service.start();
      await service.becomesReady();
    });
    afterEach(async () => {
      await service.kill();
      reader.kill('SIGKILL');
    });
    afterAll(() => rmSync(folder, { recursive: true }));

    it('continues when another process reads the pipe, and lets the process end when none does', async () => {
      const loseReader = async () => {
        reader.kill();
        await once(reader, 'exit');
        await askAs('unread');
        await pause(300); // the service has tried to write it by now
      };
      await askAs('first');
      await seesAll('"first"');
      await loseReader();
      read();
      await askAs('last');
      await seesAll('"unread"', '"last"');
      await loseReader();
      expect([await service.terminate(), service.log]).toEqual([0, '']);
    });

    it('is complete when the service ends, although the reader is slow', async () => {
      const ids = await fillPipe();
      const ended = service.terminate();
      await pause(400); // at its end the service gives the log one second
      reader.kill('SIGCONT');
      expect(await ended).toBe(0);
      await seesAll(...ids, '"draining"', '"stopped"');
    });

    it('does not keep the process when nobody reads the full pipe', async () => {
      await fillPipe();
      expect(await service.terminate()).toBe(0);
    });
  });

  it('has the stack of a crash, after which the process exits with 1', async () => {
    const service = await start({}, ['--import', crashOnSignal()]);
    service.signal('SIGUSR2');
    expect((await service.ended).code).toBe(1);
    const err = { message: 'boom [key]', stack: expect.stringContaining('at ') as string };
    expect(service.lines().slice(-3)).toMatchObject([
      { level: 'error', msg: 'uncaughtException', err },
      { msg: 'draining', reason: 'uncaughtException' },
      { msg: 'stopped' },
    ]);
  });

  it('lets the process exit with 1 after a crash during the drain, whatever signal follows', async () => {
    const service = await start({ DRAIN_DELAY_MS: '3000' }, ['--import', crashOnSignal('async')]);
    const code = service.terminate();
    await service.line(({ msg }) => msg === 'draining');
    service.signal('SIGUSR2');
    await service.line(({ msg }) => msg === 'unhandledRejection');
    for (const again of ['SIGUSR2', 'SIGTERM'] as const) service.signal(again);
    expect(await code).toBe(1);
    expect(service.lines().at(-1)).toMatchObject({ msg: 'stopped' });
    const crashes = service.lines().filter(({ level }) => level === 'error');
    expect(new Set(crashes.map(({ msg }) => msg))).toEqual(new Set(['unhandledRejection']));
    const drains = service.lines().filter(({ msg }) => msg === 'draining');
    expect(drains.map(({ reason }) => reason)).toEqual(['SIGTERM']);
  });
});
