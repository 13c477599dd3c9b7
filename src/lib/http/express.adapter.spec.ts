import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import type { Express, Response as ExpressResponse } from 'express';
import { expect, it, onTestFinished } from 'vitest';
import { StrictExpressAdapter } from './express.adapter.ts';
import { LIMITS } from './limits.ts';
import { REQUEST_ID_RULE } from './request-context.ts';

const LONGEST = { id: 2n ** 63n - 1n };
const LONGEST_TEXT = '{"id":9223372036854775807}';

async function respond(handle: (adapter: StrictExpressAdapter, response: ExpressResponse) => void, rule?: () => true) {
  const adapter = new StrictExpressAdapter(LIMITS);
  const app = adapter.getInstance<Express>();
  if (rule) app.set(REQUEST_ID_RULE, rule);
  app.get('/', (_request, response) => handle(adapter, response));
  const server = app.listen(0);
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  return fetch(url, { headers: { 'X-Request-Id': 'mine' } });
}

it.each([
  ['a text', 'x', 'x'],
  ['an object', LONGEST, LONGEST_TEXT],
])('what a handler returns gets the id of its request and the security headers: %s', async (_, returned, text) => {
  const response = await respond(
    (adapter, own) => adapter.reply(own, returned, 201),
    () => true,
  );
  expect([response.status, await response.text()]).toEqual([201, text]);
  expect(Object.fromEntries(response.headers)).toMatchObject({
    'x-request-id': 'mine',
    'x-content-type-options': 'nosniff',
  });
});

it('a request gets a new id if no rule lets it repeat its own', async () => {
  const { headers } = await respond((adapter, response) => adapter.reply(response, 'x'));
  expect(headers.get('x-request-id')).toMatch(/^[0-9a-f]{8}-[0-9a-f-]{27}$/);
});

it('a handler that writes JSON by Express writes every digit, too', async () => {
  const response = await respond((_, own) => void own.json(LONGEST));
  expect(await response.text()).toBe(LONGEST_TEXT);
});
