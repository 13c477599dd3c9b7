import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import express from 'express';
import { expect, it, onTestFinished } from 'vitest';
import { replyByWriteHead } from './responses.js';

it.each(['Zoe', 'Zoé', '雪', '🦜'])('a response has every character of its body: %s', async (name) => {
  const app = express();
  replyByWriteHead(app);
  app.get('/', (_request, response) => response.json({ name, petId: 2n ** 63n - 1n }));
  const server = app.listen(0);
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  expect(await response.text()).toBe(`{"name":"${name}","petId":9223372036854775807}`);
  expect(response.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
});
