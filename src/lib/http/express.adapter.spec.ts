import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import express from 'express';
import { expect, it, onTestFinished } from 'vitest';
import { StrictExpressAdapter } from './express.adapter.ts';
import { LIMITS } from './limits.ts';
import { REQUEST_ID_RULE } from './request-context.ts';

it.each([
  ['a text', 'x', 'x'],
  ['an object', { id: 2n ** 63n - 1n }, '{"id":9223372036854775807}'],
])('what a handler returns gets the id of its request and the security headers: %s', async (_, returned, text) => {
  const adapter = new StrictExpressAdapter(LIMITS);
  const app = express()
    .set(REQUEST_ID_RULE, () => true)
    .get('/', (_request, response) => adapter.reply(response, returned, 201));
  const server = app.listen(0);
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const response = await fetch(url, { headers: { 'X-Request-Id': 'mine' } });
  expect([response.status, await response.text()]).toEqual([201, text]);
  expect(Object.fromEntries(response.headers)).toMatchObject({
    'x-request-id': 'mine',
    'x-content-type-options': 'nosniff',
  });
});
