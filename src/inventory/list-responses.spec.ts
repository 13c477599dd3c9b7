import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import express from 'express';
import { expect, it, onTestFinished } from 'vitest';
import type { ApiRequest } from '../http/api-request.js';
import { ListResponses } from './list-responses.js';
import { PETS_PER_PIECE, Piece, StockList } from './stock-list.js';

/** A list that shares no piece with one of another quantity. */
function listOf(pieces: number, quantity: number): StockList {
  const pets = Array.from({ length: pieces * PETS_PER_PIECE }, (_, petId) => petId);
  return new StockList(Piece.cut(`,${pets.map((petId) => `{"petId":${petId},"quantity":${quantity}}`).join(',')}`));
}

it.each([
  ['one long list at a time, and sends another as it is meanwhile', 100, null],
  ['short ones beside each other', 20, 'gzip'],
])('compresses %s', async (_, pieces, codingOfOther) => {
  const responses = new ListResponses();
  const lists = [listOf(pieces, 1), listOf(pieces, 2)];
  const app = express().get('/:list', (request, response) =>
    responses.send(request as unknown as ApiRequest, response, lists[Number(request.params['list'])] ?? listOf(1, 0)),
  );
  const server = app.listen(0);
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  const get = async (list: number) => {
    const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/${list}`);
    const items = (await response.json()) as { quantity: number }[];
    return [response.headers.get('content-encoding'), items.length, items.at(-1)?.quantity];
  };
  const length = pieces * PETS_PER_PIECE;
  expect(await Promise.all([get(0), get(1), get(0)])).toEqual([
    ['gzip', length, 1],
    [codingOfOther, length, 2],
    ['gzip', length, 1],
  ]);
  expect(await get(1)).toEqual(['gzip', length, 2]);
});
