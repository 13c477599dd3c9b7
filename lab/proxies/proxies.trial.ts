import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { LIMITS } from '../../src/lib/http/index.ts';
import { FIVE } from '../../test/http/raw-requests.ts';
import { type Answer, ask } from '../../test/support/http-client.ts';
import { startService } from '../../test/support/service.ts';
import { listText } from '../../test/support/stock.ts';
import { type Changes, type ProxyName, configuration, isInstalled, startProxy } from './proxy.ts';

const KEY = 'k'.repeat(40);

function setQuantity(port: number): Promise<Answer> {
  const headers = { Authorization: `Bearer ${KEY}`, 'Content-Type': 'application/json' };
  return ask(port, { method: 'PATCH', target: '/v1/inventory/1', headers, body: FIVE });
}

const codeOf = ({ text }: Answer) => (JSON.parse(text) as { code: string }).code;

it('close idle connections before the service does', () => {
  const [, seconds] = /keepalive_timeout (\d+)s;\n {2}}/.exec(configuration('nginx')) ?? [];
  expect(Number(seconds) * 1_000).toBeLessThan(LIMITS.idleMs);
  // HAProxy closes half of its unused connections each time.
  expect(configuration('haproxy')).toContain('pool-purge-delay 5s');
});

const IMPATIENT: Record<ProxyName, Changes[number]> = {
  haproxy: ['timeout server 30s', 'timeout server 1s'],
  nginx: ['proxy_read_timeout 30s', 'proxy_read_timeout 1s'],
};
const TWO: Changes[number] = ['server replica:3000', 'server replica:3000; server replica:3000'];
const PROXIES: [string, ProxyName, Changes][] = [
  ['HAProxy', 'haproxy', []],
  ['nginx', 'nginx', [TWO]],
];
describe.each(PROXIES.filter(([, name]) => isInstalled(name)))('%s', (_, name, changes) => {
  it("passes requests on with the client's id, and lets the service refuse them", async () => {
    const service = await startService({ key: KEY });
    await service.stock([1, 5]);
    const { port } = await startProxy(name, service.port, changes);
    const headers = { Authorization: `Bearer ${KEY}`, 'X-Request-Id': 'mine' };
    const list = await ask(port, { target: '/v1/inventory', headers });
    expect([list.status, list.headers['x-request-id'], list.text]).toEqual([200, 'mine', listText([1, 5])]);
    expect((await ask(port, { method: 'POST', target: '/v1/inventory', headers })).headers['allow']).toBe(
      'GET, HEAD, OPTIONS',
    );
  });

  it.each(['cut', 'silent'])(
    'does not repeat an update whose connection is %s, and says what became of it',
    async (how) => {
      let sent = 0;
      const loser = createServer((socket) => {
        socket.on('error', () => undefined);
        socket.on('data', (bytes) => {
          if (bytes.includes('GET /health')) return void socket.end('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n');
          if (bytes.includes('PATCH ')) sent++;
          if (how === 'cut') socket.destroy();
        });
      }).listen(0, '127.0.0.1');
      await once(loser, 'listening');
      onTestFinished(() => void loser.close());
      const proxy = await startProxy(name, (loser.address() as AddressInfo).port, [...changes, IMPATIENT[name]]);
      const lost = await setQuantity(proxy.port);
      loser.close();
      const refused = await setQuantity(proxy.port);
      expect([lost.status, codeOf(lost), sent]).toEqual([503, 'outcome_unknown', 1]);
      expect([refused.status, codeOf(refused)]).toEqual([503, 'service_unavailable']);
      expect(refused.headers['retry-after']).toBe('1');
      await expect.poll(() => proxy.log()).toContain(' PATCH 503 '); // not the method of its own request within
    },
  );
});

it.runIf(isInstalled('nginx'))('nginx sends the update to another replica when one is gone', async () => {
  const service = await startService({ key: KEY });
  await service.stock([1, 5]);
  const { port } = await startProxy('nginx', service.port, [
    ['server replica:3000 fail_timeout=1s;', 'server 127.0.0.1:1 fail_timeout=1s; server replica:3000;'],
  ]);
  expect([(await setQuantity(port)).status, (await setQuantity(port)).status]).toEqual([200, 200]);
});
