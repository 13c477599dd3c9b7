import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import express, { type Express } from 'express';
import { expect, it, onTestFinished } from 'vitest';
import { ApiError } from '../errors/api-error.js';
import { sendError, sendJson } from './responses.js';

async function serve(prepare: (app: Express) => void): Promise<string> {
  const app = express();
  prepare(app);
  const server = app.listen(0);
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

it.each(['Zoe', 'Zoé', '雪', '🦜'])('a response has every character of its body: %s', async (name) => {
  const url = await serve((app) => {
    app.get('/', (_request, response) => sendJson(response, 200, { name, petId: 2n ** 63n - 1n }));
  });
  const response = await fetch(url);
  expect(await response.text()).toBe(`{"name":"${name}","petId":9223372036854775807}`);
  expect(response.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
});

it('a response that fails behind its head is cut, so that nobody takes its part for the whole, and the request keeps why', async () => {
  const error = new ApiError('internal_error');
  let asked: unknown;
  const url = await serve((app) =>
    app.get('/', (request, response) => {
      asked = request;
      response.write('[', () => sendError(response, error));
    }),
  );
  await expect((await fetch(url)).text()).rejects.toThrow('terminated');
  expect(asked).toHaveProperty('failure', error);
});
