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

/** @returns the URL, to which a list's place is added */
async function serve(lists: readonly StockList[]): Promise<string> {
  const responses = new ListResponses();
  const app = express().get('/:list', (request, response) =>
    responses.send(request as unknown as ApiRequest, response, lists[Number(request.params['list'])] ?? listOf(1, 0)),
  );
  const server = app.listen(0);
  onTestFinished(() => server.closeAllConnections());
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

it.each([
  ['one long list at a time, and sends another as it is meanwhile', 100, null],
  ['short ones beside each other', 20, 'gzip'],
])('compresses %s', async (_, pieces, codingOfOther) => {
  const lists = [listOf(pieces, 1), listOf(pieces, 2)];
  const url = await serve(lists);
  const get = async (list: number) => {
    const response = await fetch(`${url}/${list}`);
    const coding = response.headers.get('content-encoding') === 'gzip' ? 'gzip' : 'identity';
    expect(response.headers.get('etag')).toBe(`"${lists[list]?.tag(coding)}"`);
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

const [a, b, c] = ['a', 'b', 'c'].map(
  (note) => new Piece(Buffer.from(`,{"petId":1,"note":"${note.repeat(17_000_000)}"}`)),
);
const [more, less] = [',{"petId":2,"quantity":7}', ',{"petId":2,"quantity":5}'].map(
  (item) => new Piece(Buffer.from(item)),
);

it.each([
  ['cuts off who reads the oldest list slowly when outdated ones take too much memory', [[a], [b], [c]], 'rejected'],
  ['counts what outdated lists share once', [[a, more], [a, less], [b]], 'fulfilled'],
])('%s', async (_, lists, ofOldest) => {
  const url = await serve(lists.map((pieces) => new StockList(pieces.filter((piece) => piece !== undefined))));
  const headers = { 'Accept-Encoding': 'identity' };
  const answers: Response[] = [];
  for (const list of [0, 1, 2]) answers.push(await fetch(`${url}/${list}`, { headers }));
  const bodies = await Promise.allSettled(answers.map((answer) => answer.json()));
  expect(bodies.map(({ status }) => status)).toEqual([ofOldest, 'fulfilled', 'fulfilled']);
});
