import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { makeKey } from '../../src/auth/api-key.format.ts';
import { type Database, createDatabase } from '../support/database.ts';
import { Connection, ask, sendRaw } from '../support/http-client.ts';
import { type LogLine, ServiceProcess } from '../support/service-process.ts';

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const TRACE_ID = '0af7651916cd43dd8448eb211c80319c';
const CRASH_ON_SIGNAL = `data:text/javascript,${encodeURIComponent(
  "process.on('SIGUSR2', () => { throw new Error('boom psk_' + 'x'.repeat(48)); })",
)}`;

describe('the log', { timeout: 30_000 }, () => {
  const bootstrap = randomBytes(24).toString('base64url');
  let database: Database;
  /** Of the tests that need no process of their own. */
  let shared: ServiceProcess;

  beforeAll(async () => {
    database = await createDatabase();
    await database.sql("INSERT INTO inventory_item (pet_id, quantity, status) VALUES (1, 1, 'available')");
    shared = await start();
  });
  afterAll(async () => {
    await shared.kill();
    await database.drop();
  });

  const start = (settings = {}, nodeOptions: readonly string[] = []) =>
    ServiceProcess.running({ DATABASE_URL: database.url, BOOTSTRAP_API_KEY: bootstrap, ...settings }, { nodeOptions });
  const requestLines = (lines: LogLine[]) => lines.filter(({ msg }) => msg === 'request');

  /** The lines of the requests that `act` makes, which another one follows: lines come in the order of responses. */
  async function linesOf(act: (service: ServiceProcess) => Promise<unknown>): Promise<LogLine[]> {
    const before = shared.lines().length;
    await act(shared);
    const last = randomUUID();
    await fetch(`${shared.url}/v1/inventory`, { headers: { 'X-Request-Id': last } });
    await shared.line(({ requestId }) => requestId === last);
    return requestLines(shared.lines().slice(before)).slice(0, -1);
  }

  it('has one line for each request, with what an operator looks for', async () => {
    const lines = await linesOf(async ({ url, port }) => {
      const headers = { Authorization: `Bearer ${bootstrap}`, 'X-Request-Id': 'mine-1', 'Accept-Encoding': 'identity' };
      await fetch(`${url}/v1/inventory`, {
        headers: {
          ...headers,
          traceparent: `00-${TRACE_ID}-b7ad6b7169203331-01`,
          'X-Forwarded-For': '203.0.113.7, ::1',
        },
      });
      const update = { method: 'PATCH', body: '{"quantity":1}', headers: { 'Content-Type': 'application/json' } };
      await fetch(`${url}/v1/inventory/77`, { ...update, headers: { ...update.headers, ...headers } });
      await fetch(`${url}/v1/secret/path?with=query`, { headers: { traceparent: 'nonsense' } });
      await fetch(`${url}/health/live`);
      await sendRaw(port, 'nonsense\r\n\r\n');
    });
    const always = {
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/) as string,
      durationMs: expect.any(Number) as number,
      address: '127.0.0.1',
    };
    const keyId = expect.stringMatching(/^[0-9a-z]{8}$/) as string;
    expect(lines).toEqual([
      {
        ...always,
        level: 'info',
        msg: 'request',
        requestId: 'mine-1',
        traceId: TRACE_ID,
        keyId,
        forwardedFor: '203.0.113.7, ::1',
        method: 'GET',
        route: '/v1/inventory',
        status: 200,
        bytes: 47,
      },
      {
        ...always,
        level: 'warn',
        msg: 'request',
        requestId: 'mine-1',
        keyId,
        method: 'PATCH',
        route: '/v1/inventory/:petId',
        status: 404,
        code: 'not_found',
        bytes: expect.any(Number) as number,
      },
      {
        ...always,
        level: 'warn',
        msg: 'request',
        requestId: expect.stringMatching(UUID) as string,
        method: 'GET',
        route: 'unmatched',
        status: 404,
        code: 'not_found',
        bytes: expect.any(Number) as number,
      },
    ]);
  });

  it('has a line for what dies in the parser, by the id that the client was told', async () => {
    const answer = await sendRaw(shared.port, 'nonsense\r\n\r\n');
    const [, requestId] = /X-Request-Id: (\S+)/.exec(answer) ?? [];
    expect(await shared.line((line) => line['requestId'] === requestId)).toMatchObject({
      level: 'warn',
      msg: 'malformed request',
      address: '127.0.0.1',
      status: 400,
      code: 'bad_request',
    });
  });

  it('has a refusal as answered, and without the time that its body is still coming', async () => {
    const [line] = await linesOf(async ({ port }) => {
      const connection = await Connection.open(port);
      connection.send('PATCH /v1/inventory/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\nx');
      expect((await connection.answer()).status).toBe(401);
      await pause(300);
      connection.destroy();
    });
    expect(line).toMatchObject({ status: 401, reason: 'no_key' });
    expect(line).not.toHaveProperty('aborted');
    expect(line?.['durationMs']).toBeLessThan(200);
  });

  it('says that BOOTSTRAP_API_KEY is revoked, and not what it is', async () => {
    const key = randomBytes(24).toString('base64url');
    await (await start({ BOOTSTRAP_API_KEY: key })).kill();
    const sha256 = createHash('sha256').update(key).digest();
    await database.sql('UPDATE api_key SET revoked_at = now() WHERE key_sha256 = $1', [sha256]);
    const service = await start({ BOOTSTRAP_API_KEY: key });
    expect(await service.line(({ level }) => level === 'error')).toMatchObject({
      msg: 'BOOTSTRAP_API_KEY is revoked and stays so',
      keyId: expect.stringMatching(/^\w{8}$/) as string,
    });
    expect(JSON.stringify(service.lines())).not.toContain(key);
    await service.kill();
  });

  it('has of what X-Forwarded-For claims the last five addresses, and nothing that is none', async () => {
    const claims = [
      ...Array.from({ length: 300 }, (_, n) => `198.51.100.${n % 250}`),
      'unknown',
      `::1%${bootstrap}`,
      bootstrap,
      '203.0.113.7',
    ];
    const [line] = await linesOf(({ url }) =>
      fetch(`${url}/v1/inventory`, { headers: { 'X-Forwarded-For': claims.join(', ') } }),
    );
    expect(line).toMatchObject({
      address: '127.0.0.1',
      forwardedFor: '198.51.100.49, invalid, invalid, invalid, 203.0.113.7',
    });
  });

  it('has the address of a client that hung up', async () => {
    const [line] = await linesOf(async (service) => {
      const socket = connect(service.port, '127.0.0.1');
      socket.end('GET /v1/inventory HTTP/1.1\r\nHost: x\r\nX-Request-Id: gone\r\n\r\n', () => socket.destroy());
      await service.line(({ requestId }) => requestId === 'gone');
    });
    expect(line).toMatchObject({ address: '127.0.0.1', requestId: 'gone' });
  });

  it('says once that readiness has changed, and of probes nothing but at debug', async () => {
    const own = await createDatabase();
    const settings = { DATABASE_URL: own.url, LOG_LEVEL: 'debug' } as const;
    const service = await start(settings);
    const name = new URL(own.url).pathname.slice(1);
    await database.sql(`ALTER DATABASE ${name} ALLOW_CONNECTIONS false`);
    await database.sql('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1', [name]);
    await expect.poll(() => database.sql('SELECT FROM pg_stat_activity WHERE datname = $1', [name])).toEqual([]);
    const probe = () => fetch(`${service.url}/health/ready`).then(({ status }) => status);
    for (let n = 0; n < 3; n++) expect(await probe()).toBe(503);
    await database.sql(`ALTER DATABASE ${name} ALLOW_CONNECTIONS true`);
    await expect.poll(probe, { timeout: 5_000 }).toBe(200);
    await service.terminate();
    const told = service.lines().filter(({ msg }) => /^(not )?ready/.test(String(msg)));
    expect(told.map(({ level, msg, err }) => [level, msg, err])).toEqual([
      ['info', 'ready', undefined],
      ['warn', expect.stringMatching(/^not ready: .*not currently accepting connections/), undefined],
      ['info', 'ready', undefined],
    ]);
    const probes = requestLines(service.lines()).filter(
      ({ route, status }) => route === '/health/ready' && status === 503,
    );
    expect(probes.map(({ level, status }) => [level, status]).slice(0, 3)).toEqual(Array(3).fill(['debug', 503]));
    expect(service.lines().some(({ level }) => level === 'error')).toBe(false);
    expect(service.log).not.toContain('    at ');
    await own.drop();
  });

  it('says why a request was not let in, and which key it had', async () => {
    const [revoked, expired] = [makeKey(), makeKey()];
    await database.addKey(revoked, { id: 'revoked', revoked_at: new Date() });
    await database.addKey(expired, { id: 'expired', expires_at: new Date() });
    const lines = await linesOf(async ({ url }) => {
      const ask = (headers: Record<string, string>) => fetch(`${url}/v1/inventory`, { headers });
      await ask({});
      await ask({ Authorization: 'Bearer' });
      await ask({ Authorization: `Bearer ${makeKey()}` });
      await ask({ Authorization: `Bearer ${expired}` });
      await ask({ Authorization: `Bearer ${revoked}` });
    });
    expect(lines.map(({ status, reason, keyId }) => [status, reason, keyId])).toEqual([
      [401, 'no_key', undefined],
      [401, 'malformed_header', undefined],
      [401, 'unknown_key', undefined],
      [401, 'expired_key', 'expired'],
      [401, 'revoked_key', 'revoked'],
    ]);
  });

  it('has the cause of a 500 with its stack, down to the database', async () => {
    await database.sql('ALTER TABLE inventory_item RENAME COLUMN quantity TO amount');
    const lines = await linesOf(async ({ url }) => {
      const answer = await fetch(`${url}/v1/inventory`, { headers: { Authorization: `Bearer ${bootstrap}` } });
      expect(await answer.json()).toMatchObject({ code: 'internal_error' });
    });
    await database.sql('ALTER TABLE inventory_item RENAME COLUMN amount TO quantity');
    expect(lines).toMatchObject([
      {
        level: 'error',
        status: 500,
        code: 'internal_error',
        err: { stack: expect.stringContaining('    at ') as string },
      },
    ]);
    expect(JSON.stringify(lines)).toContain('42703');
  });

  it('never shows a key, wherever a client puts it', async () => {
    const keys = [bootstrap, makeKey(), makeKey()];
    await database.addKey(String(keys[1]));
    const service = await start({ LOG_LEVEL: 'trace' });
    const { url, port } = service;
    for (const key of keys) {
      const bearer = { Authorization: `Bearer ${key}` };
      const json = { ...bearer, 'Content-Type': 'application/json' };
      await fetch(`${url}/v1/inventory`, { headers: bearer });
      await fetch(`${url}/v1/inventory?access_token=${key}`, { headers: { Cookie: `key=${key}`, Referer: key } });
      await fetch(`${url}/v1/inventory/${key}`, { method: 'PATCH', headers: json, body: `{"access_token":"${key}"}` });
      await fetch(`${url}/v1/inventory/1`, { method: 'PATCH', headers: json, body: `{"${key}":1}` });
      await fetch(`${url}/v1/inventory/1`, { method: 'PATCH', headers: json, body: key });
      await fetch(`${url}/${key}`, { headers: { Authorization: `Basic ${key}`, 'User-Agent': key, traceparent: key } });
      if (key.startsWith('psk_')) await fetch(`${url}/v1/inventory`, { headers: { ...bearer, 'X-Request-Id': key } });
      await sendRaw(port, `GET /${key} HTTP/1.1\r\nHost: x\r\nAuthorization Bearer ${key}\r\n\r\n`);
      await sendRaw(port, `GET / HTTP/1.1\r\nAuthorization: Bearer ${key}\r\nConnection: close\r\n\r\n`);
      await database.sql('ALTER TABLE inventory_item RENAME COLUMN quantity TO amount');
      await fetch(`${url}/v1/inventory`, { headers: { ...bearer, 'X-Request-Id': 'a_500' } });
      await database.sql('ALTER TABLE inventory_item RENAME COLUMN amount TO quantity');
    }
    await service.terminate();
    expect(requestLines(service.lines()).length).toBeGreaterThan(20);
    expect(service.log).toContain('"requestId":"a_500"');
    const secrets = keys.flatMap((key) => [key, createHash('sha256').update(key).digest('hex')]);
    for (const secret of [...secrets, new URL(database.url).password]) expect(service.log).not.toContain(secret);
  });

  it('has of the successes one in LOG_SUCCESS_EVERY, and every failure', async () => {
    const service = await start({ LOG_SUCCESS_EVERY: '10' });
    for (let n = 0; n < 40; n++) {
      await fetch(`${service.url}/v1/inventory`, { headers: { Authorization: `Bearer ${bootstrap}` } });
      await fetch(`${service.url}/v1/inventory`);
    }
    expect(await service.terminate()).toBe(0);
    const statuses = requestLines(service.lines()).map(({ status }) => status);
    expect([200, 401].map((status) => statuses.filter((each) => each === status).length)).toEqual([4, 40]);
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
    const askAs = (id: string) => fetch(`${service.url}/v1/inventory`, { headers: { 'X-Request-Id': id } });
    const seesAll = (...wanted: readonly string[]) =>
      expect.poll(() => wanted.filter((each) => !seen.includes(each)), { timeout: 10_000 }).toEqual([]);

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
    afterAll(() => {
      rmSync(folder, { recursive: true });
    });

    it('goes on when the reader is replaced', async () => {
      await askAs('first');
      await seesAll('"first"');
      reader.kill();
      await once(reader, 'exit');
      await askAs('unread');
      await pause(300); // it has been written by now, in vain
      read();
      await askAs('last');
      await seesAll('"unread"', '"last"');
      expect(await service.terminate()).toBe(0);
    });

    it('is whole at the end, though the reader has to catch up', async () => {
      reader.kill('SIGSTOP');
      const ids = Array.from({ length: 980 }, (_, n) => `id-${n}-`); // more than a pipe holds, and then a little
      // Each on a connection of its own, for which the drain does not wait.
      for (const id of ids) await ask(service.port, { target: '/', headers: { 'X-Request-Id': id } });
      const ended = service.terminate();
      await pause(400); // of the second that the log has at the end
      reader.kill('SIGCONT');
      expect(await ended).toBe(0);
      await seesAll(...ids, '"draining"', '"stopped"');
    });

    it('does not keep the process from ending when the reader is gone', async () => {
      reader.kill();
      await once(reader, 'exit');
      await askAs('unread');
      await pause(300);
      expect([await service.terminate(), service.log]).toEqual([0, '']);
    });
  });

  it('has the stack of a crash, and the process ends with 1', async () => {
    const service = await start({}, ['--import', CRASH_ON_SIGNAL]);
    service.signal('SIGUSR2');
    expect((await service.ended).code).toBe(1);
    expect(service.lines().slice(-3)).toMatchObject([
      {
        level: 'error',
        msg: 'uncaughtException',
        err: { message: 'boom [key]', stack: expect.stringContaining('at ') as string },
      },
      { msg: 'draining', reason: 'uncaughtException' },
      { msg: 'stopped' },
    ]);
  });
});
