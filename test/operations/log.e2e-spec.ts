import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { hash, randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { makeKey } from '../../src/auth/api-key.format.ts';
import { endWithUs } from '../../dev/child.ts';
import { type Database, createDatabase } from '../support/database.ts';
import { Connection, type Question, ask, sendRaw } from '../support/http-client.ts';
import { type LogLine, ServiceProcess } from '../support/service-process.ts';

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const TRACE_ID = '0af7651916cd43dd8448eb211c80319c';
const crashOnSignal = (async = '') =>
  `data:text/javascript,${encodeURIComponent(
    `process.on('SIGUSR2', ${async} () => { throw new Error('boom psk_' + 'x'.repeat(48)); })`,
  )}`;

describe('the log', () => {
  const bootstrap = randomBytes(24).toString('base64url');
  const bearer = { Authorization: `Bearer ${bootstrap}` };
  let database: Database;
  /** For all tests that need no settings of their own. */
  let shared: ServiceProcess;

  beforeAll(async () => {
    database = await createDatabase();
    await database.sql("INSERT INTO inventory_item (pet_id, quantity, status) VALUES (1, 1, 'available')");
    shared = await start({}, ['--insecure-http-parser']); // which has no effect
  });

  const start = (settings = {}, nodeOptions: readonly string[] = []) =>
    ServiceProcess.running({ DATABASE_URL: database.url, BOOTSTRAP_API_KEY: bootstrap, ...settings }, { nodeOptions });
  const list = (headers: Record<string, string> = {}, { url } = shared) => fetch(`${url}/v1/inventory`, { headers });
  const update = (body: string, { url } = shared) =>
    fetch(`${url}/v1/inventory/1`, {
      method: 'PATCH',
      body,
      headers: { ...bearer, 'Content-Type': 'application/json' },
    });
  const requestLines = (lines: LogLine[]) => lines.filter(({ msg }) => msg === 'request');

  /** The lines of the requests that `act` makes. A last request marks their end: lines are in the order of responses. */
  async function linesOf(act: () => Promise<unknown>): Promise<LogLine[]> {
    const before = shared.lines().length;
    await act();
    const last = randomUUID();
    await list({ 'X-Request-Id': last });
    await shared.line(({ requestId }) => requestId === last);
    return requestLines(shared.lines().slice(before)).slice(0, -1);
  }

  it('has one line for each request, with all that identifies it', async () => {
    const named = { ...bearer, 'X-Request-Id': 'mine-1', traceparent: `00-${TRACE_ID}-${'0'.repeat(16)}-01` };
    const forwarded = {
      'Accept-Encoding': 'identity',
      traceparent: `00-${TRACE_ID}-b7ad6b7169203331-01`,
      'X-Forwarded-For': '203.0.113.7, ::1',
    };
    let generated: string | null = null;
    let bytes = 0;
    const lines = await linesOf(async () => {
      await list({ ...named, ...forwarded });
      const headers = { ...named, 'Content-Type': 'application/json' };
      await fetch(`${shared.url}/v1/inventory/x`, { method: 'PATCH', body: '{"quantity":1}', headers });
      const unmatched = await fetch(`${shared.url}/v1/secret/path?with=query`, {
        headers: { traceparent: 'nonsense' },
      });
      generated = unmatched.headers.get('X-Request-Id');
      await fetch(`${shared.url}/health/live`);
      await fetch(`${shared.url}/metrics`, { headers: { 'X-Request-Id': 'mine-2' } });
      const metrics = await fetch(`${shared.url}/metrics`, { headers: bearer });
      bytes = (await metrics.text()).length;
    });
    const number = expect.any(Number) as number;
    const like = (pattern: RegExp) => expect.stringMatching(pattern) as string;
    const time = like(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    const always = { msg: 'request', time, durationMs: number, address: '127.0.0.1' };
    const ok = { ...always, level: 'info', status: 200, bytes: 47 };
    const notFound = { ...always, level: 'warn', status: 404, code: 'not_found', bytes: number };
    const mine = { requestId: 'mine-1', keyId: like(/^[0-9a-z]{8}$/) };
    const claims = { traceId: TRACE_ID, forwardedFor: '203.0.113.7, ::1' };
    expect(lines).toEqual([
      { ...ok, ...mine, ...claims, method: 'GET', route: '/v1/inventory' },
      { ...notFound, ...mine, status: 400, code: 'validation_failed', method: 'PATCH', route: '/v1/inventory/:petId' },
      { ...notFound, requestId: generated, method: 'GET', route: 'unmatched' },
      expect.objectContaining({ requestId: 'mine-2', level: 'warn', status: 401, route: '/metrics', reason: 'no_key' }),
      expect.objectContaining({ level: 'info', status: 200, route: '/metrics', bytes }),
    ]);
    expect(generated).toMatch(UUID);
    const decimals = lines.flatMap(({ durationMs }) => String(durationMs).split('.')[1] ?? []);
    expect(decimals).not.toEqual([]);
    expect(decimals.filter(({ length }) => length > 3)).toEqual([]); // to the microsecond
  });

  it('leaves out the trace of a malformed traceparent', async () => {
    const [trace, parent] = [`00-${TRACE_ID}`, 'b7ad6b7169203331-01'];
    const sound = `${trace}-${parent}`;
    const others = [`00-${'0'.repeat(32)}-${parent}`, sound.toUpperCase(), `0${sound}`, sound.replace('00', 'ff')];
    const values = [sound, `${sound}, ${sound}`, ...others];
    const lines = await linesOf(async () => {
      for (const traceparent of values) await list({ traceparent });
    });
    expect(lines.map(({ traceId }) => traceId)).toEqual([TRACE_ID, ...Array<undefined>(5)]);
  });

  it('says that the client went away during a response', async () => {
    const connection = await Connection.open(shared.port);
    connection.pause();
    // Together they are more than the network takes.
    connection.send('GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(20));
    await pause(500);
    connection.reset();
    const line = await shared.line(({ aborted, status }) => aborted === true && status === 200);
    expect(line).toMatchObject({ route: '/docs/swagger-ui-bundle.js' });
  });

  it('has a line for a malformed request, with the X-Request-Id of its response', async () => {
    const sound = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
    const head = 'GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n';
    const answers = (await sendRaw(shared.port, head)) + (await sendRaw(shared.port, sound + head));
    const ids = Array.from(answers.matchAll(/X-Request-Id: (\S+)/g), ([, id]) => id);
    expect(new Set(ids).size).toBe(3);
    const requestId = ids[2];
    expect(await shared.line((line) => line['requestId'] === requestId)).toMatchObject({
      level: 'warn',
      msg: 'malformed request',
      address: '127.0.0.1',
      status: 400,
      code: 'bad_request',
    });
  });

  it('has a refused request as answered, without the time that its body takes', async () => {
    let answeredMs = 0;
    const [line] = await linesOf(async () => {
      const connection = await Connection.open(shared.port);
      const startedAt = performance.now();
      connection.send('PATCH /v1/inventory/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\nx');
      expect((await connection.answer()).status).toBe(401);
      answeredMs = performance.now() - startedAt;
      await pause(300);
      connection.destroy();
    });
    expect(line).toMatchObject({ status: 401, reason: 'no_key' });
    expect(line).not.toHaveProperty('aborted');
    expect(line?.['durationMs']).toBeLessThan(answeredMs + 200);
  });

  it.each(['revoked', 'expired'])(
    'reports that BOOTSTRAP_API_KEY is %s, and does not contain the key',
    async (state) => {
      const key = randomBytes(24).toString('base64url');
      await database.addKey(key, {
        id: `boot${state}`,
        [state === 'revoked' ? 'revoked_at' : 'expires_at']: new Date(),
      });
      const service = await start({ BOOTSTRAP_API_KEY: key });
      expect(await service.line(({ level }) => level === 'error')).toMatchObject({
        msg: `BOOTSTRAP_API_KEY is ${state} and stays so`,
        keyId: `boot${state}`,
      });
      expect(service.log).not.toContain(key);
    },
  );

  it('has the last five entries of X-Forwarded-For, and "invalid" for those that are no address', async () => {
    const claims = ['203.0.113.1', '::1', 'unknown', `::1%${bootstrap}`, bootstrap, '203.0.113.7'].join(', ');
    const [line] = await linesOf(() => list({ 'X-Forwarded-For': claims }));
    expect(line?.['forwardedFor']).toBe('::1, invalid, invalid, invalid, 203.0.113.7');
  });

  it('has the address of a client that closed its connection before the response', async () => {
    await database.session('LOCK TABLE api_key');
    const connection = await Connection.open(shared.port);
    const headers = `Host: x\r\nX-Request-Id: gone\r\nAuthorization: Bearer ${bootstrap}`;
    connection.send(`GET /v1/inventory HTTP/1.1\r\n${headers}\r\n\r\n`);
    const waits = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    await expect.poll(() => database.sql(waits)).toHaveLength(1);
    const from = performance.now();
    await pause(50);
    const waitedMs = performance.now() - from;
    connection.reset();
    const line = await shared.line(({ requestId }) => requestId === 'gone');
    expect(line).toMatchObject({ level: 'warn', status: 499, address: '127.0.0.1', aborted: true });
    expect(line).not.toHaveProperty('bytes');
    expect(line['durationMs']).toBeGreaterThan(waitedMs);
  });

  it('reports each change of readiness once, and probes only at level debug', async () => {
    const own = await createDatabase();
    const service = await start({ DATABASE_URL: own.url, LOG_LEVEL: 'debug' });
    const name = new URL(own.url).pathname.slice(1);
    await database.sql(`ALTER DATABASE ${name} ALLOW_CONNECTIONS false`);
    await database.sql('SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1', [name]);
    for (let n = 0; n < 3; n++) expect(await service.health('ready')).toBe(503);
    await database.sql(`ALTER DATABASE ${name} ALLOW_CONNECTIONS true`);
    const timesReady = () => service.lines().filter(({ msg }) => msg === 'ready').length;
    await expect.poll(timesReady).toBe(2); // without a probe
    await service.terminate();
    const lines = service.lines();
    expect(lines[0]).toMatchObject({ level: 'debug', msg: 'Starting Nest application...' });
    expect(lines.filter(({ msg }) => /^(not )?ready/.test(String(msg)))).toMatchObject([
      { level: 'info', msg: 'ready' },
      { level: 'warn', msg: expect.stringMatching(/^not ready: .*not currently accepting connections/) as string },
      { level: 'info', msg: 'ready' },
    ]);
    const probes = lines.filter(({ route, status }) => route === '/health/ready' && status === 503);
    expect(probes.length).toBeGreaterThanOrEqual(3);
    expect(new Set(probes.map(({ level }) => level))).toEqual(new Set(['debug']));
    expect(lines.some(({ level }) => level === 'error')).toBe(false);
    expect(service.log).not.toContain('    at ');
  });

  it('has the reason why a key was refused, and the id of the key', async () => {
    const [revoked, expired] = [makeKey(), makeKey()];
    await database.addKey(revoked, { id: 'revoked', revoked_at: new Date() });
    await database.addKey(expired, { id: 'expired', expires_at: new Date() });
    const lines = await linesOf(async () => {
      await list();
      for (const value of ['Bearer', `Bearer ${makeKey()}`, `Bearer ${expired}`, `Bearer ${revoked}`]) {
        await list({ Authorization: value });
      }
    });
    expect(lines.map(({ status, reason, keyId }) => [status, reason, keyId])).toEqual([
      [401, 'no_key', undefined],
      [401, 'malformed_header', undefined],
      [401, 'unknown_key', undefined],
      [401, 'expired_key', 'expired'],
      [401, 'revoked_key', 'revoked'],
    ]);
  });

  /** Reads the list while that fails. */
  async function listOfBrokenTable(headers: Record<string, string>, service = shared) {
    await database.sql('ALTER TABLE inventory_item RENAME COLUMN quantity TO amount');
    const answer = await list(headers, service);
    await database.sql('ALTER TABLE inventory_item RENAME COLUMN amount TO quantity');
    return answer.json();
  }

  it('has the cause and the stack of a 500, with the code of PostgreSQL', async () => {
    const lines = await linesOf(async () => {
      expect(await listOfBrokenTable(bearer)).toMatchObject({ code: 'internal_error' });
    });
    const err = { stack: expect.stringContaining('    at ') as string };
    expect(lines).toMatchObject([{ level: 'error', status: 500, code: 'internal_error', err }]);
    expect(JSON.stringify(lines)).toContain('42703');
  });

  it('has the words of a 503 that has no cause', async () => {
    const own = await createDatabase();
    await own.sql('ALTER TABLE api_key ADD CONSTRAINT none CHECK (false)'); // which keeps the bootstrap key out
    const service = await ServiceProcess.onFreePort({ DATABASE_URL: own.url, BOOTSTRAP_API_KEY: bootstrap });
    service.start();
    await expect.poll(() => service.log).toContain('"not ready: ');
    expect((await list(bearer, service)).status).toBe(503);
    const line = await service.line(({ status }) => status === 503);
    expect(line).toMatchObject({
      level: 'error',
      code: 'service_unavailable',
      err: { message: 'The key is not stored yet.' },
    });
    expect(line).not.toHaveProperty('reason');
    await own.sql('ALTER TABLE api_key RENAME TO lost');
    await service.line(({ msg }) => /^not ready: .*no inventory tables/.test(String(msg))); // another reason is told, too
    await own.sql('ALTER TABLE lost RENAME TO api_key; ALTER TABLE api_key DROP CONSTRAINT none');
    await service.becomesReady();
    expect((await list(bearer, service)).status).toBe(200);
  });

  it('has the cause when a rule of the database refuses an update', async () => {
    await database.sql('ALTER TABLE inventory_item ADD CONSTRAINT few CHECK (quantity < 9)');
    const lines = await linesOf(() => update('{"quantity":9}'));
    await database.sql('ALTER TABLE inventory_item DROP CONSTRAINT few');
    expect(lines).toMatchObject([{ level: 'warn', status: 400, err: { type: 'RefusedValue' } }]);
    expect(JSON.stringify(lines)).toContain('\\"few\\"');
  });

  it('never contains a key, wherever a client sends it', async () => {
    const keys = [bootstrap, makeKey(), makeKey()];
    await database.addKey(String(keys[1]));
    const service = await start({ LOG_LEVEL: 'trace' });
    const { port } = service;
    for (const key of keys) {
      const bearer = { Authorization: `Bearer ${key}` };
      const json = { ...bearer, 'Content-Type': 'application/json' };
      const update = { method: 'PATCH', target: '/v1/inventory/1', headers: json };
      const questions: Question[] = [
        { target: '/v1/inventory', headers: bearer },
        { target: `/v1/inventory?access_token=${key}`, headers: { Cookie: `key=${key}`, Referer: key } },
        { ...update, target: `/v1/inventory/${key}`, body: `{"access_token":"${key}"}` },
        { ...update, body: `{"${key}":1}` },
        { ...update, body: key },
        { target: `/${key}`, headers: { Authorization: `Basic ${key}`, 'User-Agent': key, traceparent: key } },
      ];
      for (const question of questions) await ask(port, question);
      if (key.startsWith('psk_')) await list({ ...bearer, 'X-Request-Id': key }, service);
      await sendRaw(port, `GET /${key} HTTP/1.1\r\nHost: x\r\nAuthorization Bearer ${key}\r\n\r\n`);
      await sendRaw(port, `GET / HTTP/1.1\r\nAuthorization: Bearer ${key}\r\nConnection: close\r\n\r\n`);
      await listOfBrokenTable({ ...bearer, 'X-Request-Id': 'a_500' }, service);
    }
    await service.terminate();
    expect(requestLines(service.lines()).length).toBeGreaterThan(20);
    expect(service.log).toContain('"requestId":"a_500"');
    const secrets = [...keys, ...keys.map((key) => hash('sha256', key)), new URL(database.url).password];
    for (const secret of secrets) expect(service.log).not.toContain(secret);
  });

  it('has one in LOG_SUCCESS_EVERY successful requests, and every failed one', async () => {
    const service = await start({ LOG_SUCCESS_EVERY: '10' });
    for (let n = 0; n < 31; n++) {
      await list(n % 2 ? { ...bearer, 'If-None-Match': '*' } : bearer, service);
      await service.health('live'); // probes do not count
      await update('{', service);
    }
    service.signal('SIGINT');
    expect((await service.ended).code).toBe(0);
    expect(service.lines().at(-2)).toMatchObject({ msg: 'draining', reason: 'SIGINT' });
    const statuses = Map.groupBy(requestLines(service.lines()), ({ status }) => status);
    expect([200, 304, 400].map((status) => statuses.get(status)?.length)).toEqual([4, undefined, 31]); // the first, and each tenth after it
  });

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

  it('has each line a moment after its response', async () => {
    const times = new Set<number>();
    for (let n = 0; n < 10; n++) {
      await list();
      await pause(150);
      times.add(shared.log.length);
    }
    expect(times.size).toBeGreaterThan(4);
  });

  it('keeps 16 MiB that nobody reads, counts what it drops, and gives its end a second', async () => {
    const script = `
      import { Log } from './dist/operations/log.js';
      const log = new Log({ LOG_LEVEL: 'info' });
      for (let n = 0; n < 20; n++) log.info('x'.repeat(2 ** 20 - 1_000));
      setTimeout(() => console.error('waits'), 800);
      setTimeout(() => console.error('waits too long'), 1_500);
      await log.flush();
      console.error(log.dropped);
      process.exit();`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'pipe'] });
    endWithUs(child, 'KILL');
    child.stdout.pause();
    let told = '';
    child.stderr.on('data', (text: Buffer) => (told += String(text)));
    await once(child, 'exit');
    expect(told).toBe('waits\n4\n');
  });

  it('is written in parts of 8 KiB, and complete when its end comes while an earlier part is written', () => {
    const script = `
      import fs from 'node:fs';
      import { Log } from './dist/operations/log.js';
      const { write } = fs;
      let parts = 0;
      fs.write = (...part) => (parts++, write(...part));
      const log = new Log({ LOG_LEVEL: 'info' });
      log.info('x'.repeat(8_000)); // waits for more
      const early = parts;
      log.info('x'.repeat(200)); // and is written at once
      log.info({ early, parts }, 'last');
      await log.flush();
      process.exit();`;
    const printed = execFileSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
    expect(printed).toMatch(/"early":0,"parts":1,"msg":"last"\}\n$/);
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
    const askAs = (id: string) => list({ 'X-Request-Id': id }, service);
    /** Stops the reader. @returns what it has not read */
    const fillPipe = async () => {
      reader.kill('SIGSTOP');
      const ids = Array.from({ length: 980 }, (_, n) => `id-${n}-`); // a little more than a pipe holds
      // Each uses its own connection, because the drain does not wait for those.
      for (const id of ids) await ask(service.port, { target: '/', headers: { 'X-Request-Id': id } });
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
