import { once } from 'node:events';
import { type AddressInfo, Socket, createServer } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { ClientBase } from 'pg';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { createCertificate } from '../../../test/support/certificate.ts';
import { connectionConfig, openConnection, schemaOf } from './connection-config.ts';

const bounds = { statement_timeout: 1_500, lock_timeout: 900 };

const POSTGRES = Promise.resolve({ rows: [{ version: 'PostgreSQL 18.4' }] });

/** What a session of the address is told first, after it is asked for its version. */
async function firstStatement(url: string): Promise<string> {
  let told = '';
  const client = { query: (sql: string) => (told = sql) && POSTGRES };
  await connectionConfig(url, 'list', bounds).onConnect(client as unknown as ClientBase);
  return told;
}

describe('connectionConfig', () => {
  it('keeps what the URL asks for, and has the last word where both ask', async () => {
    const url =
      'postgresql://me:p%40ss@db:5433/stock?sslmode=require&options=-c%20work_mem%3D8MB&statement_timeout=1&lock_timeout=1&application_name=x&query_timeout=1&keepAlive=0';
    const config = connectionConfig(url, 'list', { ...bounds, query_timeout: 2_000 });
    expect(config).toMatchObject({
      query_timeout: 2_000,
      connectionString: 'postgresql://me:p%40ss@db:5433/stock?options=-c+work_mem%3D8MB',
      ssl: { rejectUnauthorized: false },
      application_name: 'inventory list',
    });
    for (const startupParameter of Object.keys(bounds)) expect(config).not.toHaveProperty(startupParameter); // a pooler refuses it
    expect(await firstStatement(url)).toMatch(/^SELECT version\(\) AS version;SET statement_timeout = '1500';/);
  });

  it('looks for the tables where the URL says, or in public', async () => {
    for (const none of ['', '?schema='])
      expect(await firstStatement(`postgresql://db/stock${none}`)).toContain(`SET search_path = 'public';`);
    const url = 'postgresql://db/stock?schema=pet%20store';
    expect(schemaOf(url)).toBe('pet store');
    expect(await firstStatement(url)).toContain(`SET search_path = 'pet store';`);
    expect(await firstStatement(`${url}'s`)).toContain(`SET search_path = 'pet store''s';`);
  });

  it.each([
    ['sslrootcert=/missing', 'ENOENT'],
    ['sslrootcert=/dev/null', 'ERR_OSSL_PEM_NO_START_LINE'],
    ['sslcert=package.json&sslkey=package.json', 'ERR_OSSL_PEM_NO_START_LINE'],
  ])('fails with %s, and tells the cause', (files, code) => {
    const url = `postgresql://db/stock?sslmode=require&${files}`;
    expect(() => connectionConfig(url, 'list', bounds)).toThrow(
      expect.objectContaining({ cause: expect.objectContaining({ code }) as unknown }),
    );
  });

  const refuse = () => Promise.reject(new Error('refused'));

  it.each([
    ['whose first statement fails', refuse, () => undefined],
    ['that cannot be prepared', () => POSTGRES, refuse],
  ])('cuts a connection %s, because its orderly end could wait for ever', async (_, query, prepare) => {
    const destroy = vi.fn();
    const client = { query, connection: { stream: { destroy } } };
    const config = connectionConfig('postgresql://db/stock', 'list', bounds, prepare);
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
    const config = connectionConfig(`postgresql://me@127.0.0.1:${port}/stock`, 'list', bounds);
    await expect(openConnection(config)).rejects.toThrow();
    expect(setKeepAlive.mock.calls).toEqual([[true, 10_000]]);
  });

  describe('with channel_binding=require', () => {
    const demand = (kind: number, body = '') =>
      Buffer.from(`R\0\0\0${String.fromCharCode(8 + body.length)}\0\0\0${String.fromCharCode(kind)}${body}`, 'latin1');
    const BOUND = demand(10, 'SCRAM-SHA-256-PLUS\0\0');
    const LET_IN = Buffer.concat([demand(0), Buffer.from('Z\0\0\0\x05I')]);

    /** Listens as a server in the middle. @returns the port, and what it was told after the startup message */
    async function inTheMiddle(demands: Buffer[]) {
      const { certificate: cert, key } = createCertificate();
      const told: string[] = [];
      const server = createServer((socket) => {
        socket
          .on('error', () => undefined)
          .once('data', () => {
            socket.write('S');
            const left = [...demands];
            new TLSSocket(socket, { isServer: true, cert, key })
              .on('error', () => undefined)
              .on('data', function (this: TLSSocket, bytes: Buffer) {
                told.push(bytes.toString('latin1'));
                const next = left.shift();
                if (next) this.write(next);
                else this.end();
              });
          });
      }).listen(0, '127.0.0.1');
      onTestFinished(() => void server.close());
      await once(server, 'listening');
      return { port: (server.address() as AddressInfo).port, told };
    }

    it.each([
      ['for a password', [demand(3), LET_IN]],
      ['for nothing', [LET_IN]],
      ['first for SCRAM-SHA-256-PLUS, then for a password', [BOUND, demand(3), LET_IN]],
      ['for both at once', [Buffer.concat([BOUND, demand(3)]), LET_IN]],
      ['first for SCRAM-SHA-256-PLUS, then for an md5 of the password', [BOUND, demand(5, 'salt'), LET_IN]],
      ['first for SCRAM-SHA-256-PLUS, then for SCRAM-SHA-256', [BOUND, demand(10, 'SCRAM-SHA-256\0\0'), LET_IN]],
    ])('gives no password to a server in the middle that asks %s', async (_, demands) => {
      const { port, told } = await inTheMiddle(demands);
      const url = `postgresql://me:secret@127.0.0.1:${port}/stock?sslmode=require`;
      const bounds = { connectionTimeoutMillis: 10_000 };
      const bound = connectionConfig(`${url}&channel_binding=require`, 'list', bounds);
      await expect(openConnection(bound)).rejects.toThrow('SCRAM-SHA-256-PLUS, which channel_binding=require demands');
      for (const text of told.slice(1)) expect(text).toContain('SCRAM-SHA-256-PLUS'); // the start of an exchange
    });
  });
});
