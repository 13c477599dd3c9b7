import { once } from 'node:events';
import { type AddressInfo, Socket, createServer } from 'node:net';
import { userInfo } from 'node:os';
import { TLSSocket } from 'node:tls';
import { Client, type ClientBase } from 'pg';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { createCertificate } from '../../../test/support/certificate.ts';
import { connectionConfig, openConnection, schemaOf } from './connection-config.ts';

const bounds = { statement_timeout: 1_500, lock_timeout: 900 };

const POSTGRES = Promise.resolve({ rows: [{ version: 'PostgreSQL 18.4' }] });

/** The first statement of a session of the address, with which it also asks for the version. */
async function firstStatement(url: string): Promise<string> {
  let sent = '';
  const client = { query: (sql: string) => (sent = sql) && POSTGRES };
  await connectionConfig(url, 'list', bounds).onConnect(client as unknown as ClientBase);
  return sent;
}

describe('connectionConfig', () => {
  it('keeps what the URL asks for, and has the last word where both ask', async () => {
    const url =
      'postgresql://me:p%40ss@db:5433/shop%231?sslmode=require&options=-c%20work_mem%3D8MB&statement_timeout=1&lock_timeout=1&application_name=x&query_timeout=1&keepAlive=0';
    const config = connectionConfig(url, 'list', { ...bounds, query_timeout: 2_000 });
    expect(config).toMatchObject({
      query_timeout: 2_000,
      ...{ user: 'me', password: 'p@ss', host: 'db', port: 5433, database: 'shop#1', options: '-c work_mem=8MB' },
      ssl: { rejectUnauthorized: false },
      application_name: 'list',
    });
    // A pooler refuses it.
    for (const startupParameter of Object.keys(bounds)) expect(config).not.toHaveProperty(startupParameter);
    expect(await firstStatement(url)).toMatch(/^SELECT version\(\) AS version;SET statement_timeout = '1500';/);
  });

  it('leaves nothing to the environment but a password', async () => {
    const startups: string[][] = [];
    const server = createServer((socket) =>
      socket.once('data', (bytes) => {
        startups.push(bytes.toString('latin1', 8).split('\0'));
        socket.destroy();
      }),
    ).listen(0, '127.0.0.1');
    onTestFinished(() => void server.close());
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const environment = vi.spyOn(process, 'env', 'get');
    onTestFinished(() => environment.mockRestore());
    environment.mockReturnValue(new Proxy({}, { get: () => 'nonsense' })); // in any variable that the driver may read
    const config = connectionConfig(`postgresql://me@127.0.0.1:${port}`, 'list', bounds);
    await expect(openConnection(config)).rejects.toThrow();
    const pairs = ['user', 'me', 'database', 'me', 'application_name', 'list', 'client_encoding', 'UTF8'];
    expect(startups).toEqual([[...pairs, '', '']]);
    const { username: user } = userInfo();
    const defaults = { user, database: user, host: 'localhost', port: 5432, password: 'nonsense' };
    expect(new Client(connectionConfig('postgresql://', 'list', bounds))).toMatchObject(defaults);
  });

  it.runIf(process.geteuid?.() === 0)('wants a user in the address if the account has no name', () => {
    onTestFinished(() => process.seteuid?.(0));
    process.seteuid?.(2 ** 31 - 1);
    expect(() => connectionConfig('postgresql://', 'list', bounds)).toThrow('DATABASE_URL must name a user');
  });

  it('looks for the tables where the URL says, or in public', async () => {
    for (const none of ['', '?schema='])
      expect(await firstStatement(`postgresql://db/shop${none}`)).toContain(`SET search_path = 'public';`);
    const url = 'postgresql://db/shop?schema=big%20shop';
    expect(schemaOf(url)).toBe('big shop');
    expect(await firstStatement(url)).toContain(`SET search_path = 'big shop';`);
    expect(await firstStatement(`${url}'s`)).toContain(`SET search_path = 'big shop''s';`);
  });

  const refuse = () => Promise.reject(new Error('refused'));

  it.each([
    ['whose first statement fails', refuse, () => undefined],
    ['that cannot be prepared', () => POSTGRES, refuse],
  ])('cuts a connection %s, because its orderly end could wait for ever', async (_, query, prepare) => {
    const destroy = vi.fn();
    const client = { query, connection: { stream: { destroy } } };
    const config = connectionConfig('postgresql://db/shop', 'list', bounds, prepare);
    await expect(config.onConnect(client as unknown as ClientBase)).rejects.toThrow('refused');
    expect(destroy).toHaveBeenCalled();
  });

  it('has the system ask for a silent database after ten seconds', async () => {
    const server = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1');
    onTestFinished(() => void server.close());
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const setKeepAlive = vi.spyOn(Socket.prototype, 'setKeepAlive');
    onTestFinished(() => setKeepAlive.mockRestore());
    const config = connectionConfig(`postgresql://me@127.0.0.1:${port}/shop`, 'list', bounds);
    await expect(openConnection(config)).rejects.toThrow();
    expect(setKeepAlive.mock.calls).toEqual([[true, 10_000]]);
  });

  describe('with channel_binding=require', () => {
    const demand = (kind: number, body = '') =>
      Buffer.from(`R\0\0\0${String.fromCharCode(8 + body.length)}\0\0\0${String.fromCharCode(kind)}${body}`, 'latin1');
    const BOUND = demand(10, 'SCRAM-SHA-256-PLUS\0\0');
    const LET_IN = Buffer.concat([demand(0), Buffer.from('Z\0\0\0\x05I')]);

    /** Listens as a server in the middle. @returns the port, and what it got after the startup message */
    async function inTheMiddle(demands: Buffer[]) {
      const { certificate: cert, key } = createCertificate();
      const received: string[] = [];
      const server = createServer((socket) => {
        socket
          .on('error', () => undefined)
          .once('data', () => {
            socket.write('S');
            const left = [...demands];
            new TLSSocket(socket, { isServer: true, cert, key })
              .on('error', () => undefined)
              .on('data', function (this: TLSSocket, bytes: Buffer) {
                received.push(bytes.toString('latin1'));
                const next = left.shift();
                if (next) this.write(next);
                else this.end();
              });
          });
      }).listen(0, '127.0.0.1');
      onTestFinished(() => void server.close());
      await once(server, 'listening');
      return { port: (server.address() as AddressInfo).port, received };
    }

    it.each([
      ['for nothing', [LET_IN]],
      ['for both at once', [Buffer.concat([BOUND, demand(3)]), LET_IN]],
      ['first for SCRAM-SHA-256-PLUS, then for an md5 of the password', [BOUND, demand(5, 'salt'), LET_IN]],
      ['first for SCRAM-SHA-256-PLUS, then for SCRAM-SHA-256', [BOUND, demand(10, 'SCRAM-SHA-256\0\0'), LET_IN]],
    ])('gives no password to a server in the middle that asks %s', async (_, demands) => {
      const { port, received } = await inTheMiddle(demands);
      const url = `postgresql://me:secret@127.0.0.1:${port}/shop?sslmode=require`;
      const bounds = { connectionTimeoutMillis: 10_000 };
      const bound = connectionConfig(`${url}&channel_binding=require`, 'list', bounds);
      await expect(openConnection(bound)).rejects.toThrow('SCRAM-SHA-256-PLUS, which channel_binding=require demands');
      for (const text of received.slice(1)) expect(text).toContain('SCRAM-SHA-256-PLUS'); // the start of an exchange
    });
  });
});
