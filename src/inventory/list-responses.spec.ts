import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import express from 'express';
import { expect, it, onTestFinished } from 'vitest';
import type { ApiRequest } from '../http/api-request.js';
import { ListResponses } from './list-responses.js';
import { PETS_PER_PIECE, Piece, StockList } from './stock-list.js';

const PIECES = 100;

/** A list that shares no piece with one of another quantity. */
function longList(quantity: number): StockList {
  const pets = Array.from({ length: PIECES * PETS_PER_PIECE }, (_, petId) => petId);
  return new StockList(Piece.cut(`[${pets.map((petId) => `{"petId":${petId},"quantity":${quantity}}`).join(',')}`));
}

it('compresses one long list at a time, and sends another as it is meanwhile', async () => {
  const responses = new ListResponses();
  const lists = [longList(1), longList(2)];
  const app = express().get('/:list', (request, response) =>
    responses.send(request as unknown as ApiRequest, response, lists[Number(request.params['list'])] ?? longList(0)),
  );
  const server = app.listen(0);
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  const get = async (list: number) => {
    const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/${list}`);
    const items = (await response.json()) as { quantity: number }[];
    return [response.headers.get('content-encoding'), items.length, items.at(-1)?.quantity];
  };
  const length = PIECES * PETS_PER_PIECE;
  expect(await Promise.all([get(0), get(1), get(0)])).toEqual([
    ['gzip', length, 1],
    [null, length, 2],
    ['gzip', length, 1],
  ]);
  expect(await get(1)).toEqual(['gzip', length, 2]);
});
