import { hash, randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import type { Request, Response } from 'express';
import { beforeAll, describe, expect, it } from 'vitest';
import { makeKey } from '../../src/keys/api-key-format.ts';
import { type Database, createDatabase } from '../support/database.ts';
import { Connection, type Question, ask, sendRaw } from '../support/http-client.ts';
import { type LogReader, readLog } from '../support/log-reader.ts';
import type { LogLine } from '../support/service-process.ts';
import { type ServiceOptions, type TestService, startService } from '../support/service.ts';
import { listText } from '../support/stock.ts';

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const TRACE_ID = '0af7651916cd43dd8448eb211c80319c';

describe('the log', () => {
  const bootstrap = randomBytes(24).toString('base64url');
  const bearer = { Authorization: `Bearer ${bootstrap}` };
  let database: Database;
  let log: LogReader;
  /** For all tests that need no settings of their own. */
  let shared: TestService;

  beforeAll(async () => {
    log = await readLog();
    database = await createDatabase();
    await database.stock([1, 1]);
    const [, host = 'none'] = /^ENV .*\bHOST=(\S*)/m.exec(readFileSync('Dockerfile', 'utf8')) ?? []; // the image listens so
    const sendLarge = (_: Request, response: Response) => response.end(Buffer.alloc(20_000_000)); // more than socket buffers take
    shared = await start({}, { host, prepare: (app) => void app.use('/large', sendLarge) });
  });

  const start = (settings = {}, options: ServiceOptions = {}) =>
    startService({
      ...{ databaseUrl: database.url, key: bootstrap, settings: { LOG_LEVEL: 'info', ...settings } },
      ...options,
    });
  const list = (headers: Record<string, string> = {}, { url }: { url: string } = shared) =>
    fetch(`${url}/v1/inventory`, { headers });
  const update = (body: string, { url } = shared) =>
    fetch(`${url}/v1/inventory/1`, {
      method: 'PATCH',
      body,
      headers: { ...bearer, 'Content-Type': 'application/json' },
    });
  const requestLines = (lines: LogLine[]) => lines.filter(({ msg }) => msg === 'request');

  /**
   * The lines of the requests that `act` makes. A last request marks their end: lines are in the order of responses.
   */
  async function linesOf(act: () => Promise<unknown>): Promise<LogLine[]> {
    const before = log.lines().length;
    await act();
    const last = randomUUID();
    await list({ 'X-Request-Id': last });
    await log.line(({ requestId }) => requestId === last);
    return requestLines(log.lines().slice(before)).slice(0, -1);
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
    const ok = { ...always, level: 'info', status: 200, bytes: listText([1, 1]).length };
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

  it('has the address of a client as IPv4 or IPv6, because the image listens on both', async () => {
    const lines = await linesOf(async () => {
      await list();
      await list({}, { url: `http://[::1]:${shared.port}` });
    });
    expect(lines.map(({ address }) => address)).toEqual(['127.0.0.1', '::1']);
  });

  it('takes a traceparent of a later version, and leaves out the trace of a malformed one', async () => {
    const [trace, parent] = [`00-${TRACE_ID}`, 'b7ad6b7169203331-01'];
    const sound = `${trace}-${parent}`;
    const others = [`00-${'0'.repeat(32)}-${parent}`, sound.toUpperCase(), `0${sound}`, sound.replace('00', 'ff')];
    const later = [sound.replace('00', '01'), `${sound.replace('00', 'cc')}-more`];
    const values = [sound, ...later, `${sound}, ${sound}`, `${sound}-more`, ...others];
    const lines = await linesOf(async () => {
      for (const traceparent of values) await list({ traceparent });
    });
    expect(lines.map(({ traceId }) => traceId)).toEqual([...Array<string>(3).fill(TRACE_ID), ...Array<undefined>(6)]);
  });

  it('says that the client went away during a response', async () => {
    const connection = await Connection.open(shared.port);
    connection.pause();
    const requested = once(shared.server, 'request');
    connection.send('GET /large HTTP/1.1\r\nHost: a\r\n\r\n');
    await requested;
    connection.reset();
    expect(await log.line(({ aborted }) => aborted === true)).toMatchObject({ status: 200, route: 'unmatched' });
  });

  it('has a line for a malformed request, with the X-Request-Id of its response', async () => {
    const sound = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
    const head = 'GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n';
    const answers = (await sendRaw(shared.port, head)) + (await sendRaw(shared.port, sound + head));
    const ids = Array.from(answers.matchAll(/X-Request-Id: (\S+)/g), ([, id]) => id);
    expect(new Set(ids).size).toBe(3);
    const requestId = ids[2];
    expect(await log.line((line) => line['requestId'] === requestId)).toMatchObject({
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
      await pause(300); // the time that the body takes
      connection.destroy();
    });
    expect(line).toMatchObject({ status: 401, reason: 'no_key' });
    expect(line).not.toHaveProperty('aborted');
    expect(line?.['durationMs']).toBeLessThan(answeredMs + 200);
  });

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
    await expect.poll(() => database.waitingForLocks()).toBe(1);
    const from = performance.now();
    await pause(50); // a part of the time that the log has to show
    const waitedMs = performance.now() - from;
    connection.reset();
    const line = await log.line(({ requestId }) => requestId === 'gone');
    expect(line).toMatchObject({ level: 'warn', status: 499, address: '127.0.0.1', aborted: true });
    expect(line).not.toHaveProperty('bytes');
    expect(line['durationMs']).toBeGreaterThan(waitedMs);
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
    await database.sql(`BEGIN; ALTER TABLE inventory_item RENAME TO pets;
      CREATE VIEW inventory_item AS SELECT pet_id, (SELECT * FROM generate_series(1, 2)) AS quantity, status FROM pets; COMMIT`);
    const answer = await list(headers, service);
    await database.sql('BEGIN; DROP VIEW inventory_item; ALTER TABLE pets RENAME TO inventory_item; COMMIT');
    return answer.json();
  }

  it('has the cause and the stack of a 500, with the code of PostgreSQL', async () => {
    const lines = await linesOf(async () => {
      expect(await listOfBrokenTable(bearer)).toMatchObject({ code: 'internal_error' });
    });
    const err = { stack: expect.stringContaining('    at ') as string };
    expect(lines).toMatchObject([{ level: 'error', status: 500, code: 'internal_error', err }]);
    expect(JSON.stringify(lines)).toContain('21000');
  });

  it('has the cause when a rule of the database refuses an update', async () => {
    await database.sql('ALTER TABLE inventory_item ADD CONSTRAINT few CHECK (quantity < 9)');
    const lines = await linesOf(() => update('{"quantity":9}'));
    await database.sql('ALTER TABLE inventory_item DROP CONSTRAINT few');
    expect(lines).toMatchObject([{ level: 'warn', status: 400, err: { type: 'RefusedValue' } }]);
    expect(JSON.stringify(lines)).toMatch(/few\W+\(23514\)/);
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
    await service.stop();
    expect(requestLines(log.lines()).length).toBeGreaterThan(20);
    expect(log.text()).toContain('"requestId":"a_500"');
    const secrets = [...keys, ...keys.map((key) => hash('sha256', key)), new URL(database.url).password];
    for (const secret of secrets) expect(log.text()).not.toContain(secret);
  });

  it('has one in LOG_SUCCESS_EVERY successful requests, and every failed one', async () => {
    const service = await start({ LOG_SUCCESS_EVERY: '10' });
    const before = log.lines().length;
    for (let n = 0; n < 31; n++) {
      await list(n % 2 ? { ...bearer, 'If-None-Match': '*' } : bearer, service);
      await fetch(`${service.url}/health/live`); // probes do not count
      await update('{', service);
    }
    await service.stop();
    const statuses = Map.groupBy(requestLines(log.lines().slice(before)), ({ status }) => status);
    expect([200, 304, 400].map((status) => statuses.get(status)?.length)).toEqual([4, undefined, 31]); // the first, and each tenth after it
  });
});
