import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import type { Response } from 'express';
import { describe, expect, it } from 'vitest';
import { PrismaService } from '../src/prisma.service.ts';
import type { StrictExpressAdapter } from '../src/lib/http/index.ts';
import { SETTINGS, Settings } from '../src/settings.ts';
import { createDatabase } from './support/database.ts';
import { Connection, ask } from './support/http-client.ts';
import { ServiceProcess } from './support/service-process.ts';
import { type TestService, startService } from './support/service.ts';

function drain({ app, server }: TestService): Promise<boolean> {
  const adapter = app.getHttpAdapter() as StrictExpressAdapter;
  const { DRAIN_DELAY_MS: delayMs, DRAIN_TIMEOUT_MS: timeoutMs } = app.get<Settings>(Settings);
  return adapter.drain.empty(server, { delayMs, timeoutMs });
}

describe('the drain', () => {
  it('lets a slow reader read a whole response', async () => {
    const large = Buffer.alloc(20_000_000); // more than socket buffers take
    const service = await startService({
      prepare: (app) => void app.use('/large', (_: unknown, response: Response) => response.end(large)),
    });
    const connection = (await Connection.open(service.port)).send('GET /large HTTP/1.1\r\nHost: a\r\n\r\n');
    await once(service.server, 'request');
    connection.pause();
    const drained = drain(service);
    await pause(1_500); // longer than idle connections stay open; nothing tells that it would have been closed
    connection.resume();
    expect((await connection.answer()).bytes.length).toBe(large.length);
    expect(await drained).toBe(true);
  });

  it('answers connections that were opened before it and are not accepted yet', async () => {
    const service = await startService();
    const asked = Promise.all(Array.from({ length: 50 }, () => ask(service.port, { target: '/health/live' })));
    const [isEmpty, answers] = await Promise.all([drain(service), asked]);
    expect([isEmpty, ...answers.map(({ status }) => status)]).toEqual([true, ...Array<number>(50).fill(200)]);
  });

  it('is not needed while the service starts: it hears a signal before it loads a package, and ends at once', async () => {
    // No name server answers. When the service begins to listen for signals, this prints the number of modules
    // that it has loaded from packages, and sends SIGTERM.
    const preload = `import dns from 'node:dns'; import { createRequire } from 'node:module';
      dns.lookup = () => undefined;
      process.on('newListener', (name) => {
        if (name !== 'SIGINT') return;
        console.error(Object.keys(createRequire('/').cache).length);
        process.kill(process.pid);
      });`;
    const nodeOptions = ['--import', `data:text/javascript,${preload}`];
    const settings = { DATABASE_URL: 'postgresql://127.0.0.1:1/x', HOST: 'localhost' };
    const service = await ServiceProcess.onFreePort(settings, { nodeOptions });
    service.start();
    expect(await service.ended).toMatchObject({ code: 0 });
    expect(service.log).toBe('0\n');
  });

  it('does not wait for a request that never arrives completely', async () => {
    const settings = { DRAIN_TIMEOUT_MS: '15000' };
    const service = await startService({ settings, limits: { headMs: 300, requestMs: 20_000 } });
    const connection = await Connection.open(service.port);
    connection.send('GET /v1/inventory HTTP/1.1\r\nHost: half\r\nAuth');
    expect(await drain(service)).toBe(true); // false after DRAIN_TIMEOUT_MS
    expect(await connection.closed()).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n.*"code":"request_timeout"/s);
  });

  it('closes its sessions after the last answer, so that no request opens others that nobody ends', async () => {
    const service = await startService();
    const holder = await service.database.session('LOCK TABLE api_key'); // the key check waits, so the list has not asked for a connection
    const list = service.list();
    await expect.poll(() => service.database.waitingForLocks()).toBe(1);
    const closed = service.app.close();
    await expect.poll(() => service.server.listening).toBe(false);
    await holder.end();
    expect((await list).status).toBe(200);
    await closed;
    await expect.poll(() => service.database.sessions()).toHaveLength(1); // the test's own
  });

  it('ends the process after DRAIN_TIMEOUT_MS, and its exit code says that a request is left', async () => {
    const { url } = await createDatabase();
    const service = await ServiceProcess.running({ DATABASE_URL: url, DRAIN_TIMEOUT_MS: '100' });
    const connection = await Connection.open(service.port);
    connection.send('GET /v1/inventory HTTP/1.1\r\nHost: half\r\nAuth');
    service.signal('SIGINT');
    expect((await service.ended).code).toBe(1);
    expect(await service.line(({ msg }) => msg === 'draining')).toMatchObject({ reason: 'SIGINT' });
    const graceS = Number(/stop_grace_period: (\d+)s/.exec(readFileSync('docker-compose.yml', 'utf8'))?.[1]);
    // Besides, it takes up to a second for connections that keep coming, two for its sessions, and one for the log.
    expect(Number(SETTINGS.DRAIN_TIMEOUT_MS.default) + 4_000).toBeLessThan(graceS * 1_000);
    expect(service.lines().findLast(({ msg }) => msg)).toMatchObject({ msg: 'stopped with requests unanswered' });
    expect(await connection.closed()).toBe('');
  });

  it('gives requests DRAIN_TIMEOUT_MS after the delay, not from the signal on', async () => {
    const service = await startService({ settings: { DRAIN_DELAY_MS: '3000', DRAIN_TIMEOUT_MS: '3000' } });
    await service.stock([1, 1]);
    const unlock = await service.database.lockRow(1);
    const drained = drain(service);
    service.app.get(PrismaService).isPrepared = false; // as before the database was found
    const updated = service.update(1, 2);
    const probes = ['ready', 'live'].map((name) => fetch(`${service.url}/health/${name}`));
    const answers = await Promise.all(probes);
    expect(answers.map(({ status, headers }) => `${status} ${headers.get('connection')}`)).toEqual([
      '503 close',
      '200 close',
    ]);
    expect(await answers[0]?.json()).toMatchObject({ message: 'The service is shutting down.' });
    await expect.poll(() => service.server.listening).toBe(false); // the bound would be over if it had begun with the delay
    await unlock();
    expect((await updated).status).toBe(200);
    expect(await drained).toBe(true);
  });
});
