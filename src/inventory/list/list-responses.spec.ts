import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import express from 'express';
import { expect, it, onTestFinished, vi } from 'vitest';
import type { ApiRequest } from '../../lib/http/index.ts';
import { ListResponses } from './list-responses.ts';
import { PETS_PER_PIECE, Piece, StockList } from './stock-list.ts';

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
  ['one long list at a time, and sends another as it is meanwhile', 65, null],
  ['short ones beside each other', 20, 'gzip'],
])('compresses %s', async (_, pieces, codingOfOther) => {
  const [first, ...others] = [listOf(pieces, 1), listOf(pieces, 2), listOf(40, 3)] as const;
  const [piece, ...rest] = first.pieces;
  const lists = [
    first,
    ...others,
    new StockList([...Piece.cut(String(piece?.bytes).replace(/^,[^}]+}/, '')), ...rest]),
  ];
  const url = await serve(lists);
  const get = async (list: number) => {
    const response = await fetch(`${url}/${list}`);
    const coding = response.headers.get('content-encoding') === 'gzip' ? 'gzip' : 'identity';
    expect(response.headers.get('etag')).toBe(`"${lists[list]?.tag(coding)}"`);
    const items = (await response.json()) as { quantity: number }[];
    return [response.headers.get('content-encoding'), items.length, items.at(-1)?.quantity];
  };
  vi.spyOn(first, 'gzip').mockRejectedValueOnce(new Error('no memory'));
  expect((await fetch(`${url}/0`)).status).toBe(500);
  const length = pieces * PETS_PER_PIECE;
  expect(await Promise.all([get(0), get(1), get(0)])).toEqual([
    ['gzip', length, 1],
    [codingOfOther, length, 2],
    ['gzip', length, 1],
  ]);
  expect(await get(1)).toEqual(['gzip', length, 2]);
  // All pieces of the last list but one are compressed.
  expect((await Promise.all([get(2), get(3)])).map(([coding]) => coding)).toEqual(['gzip', 'gzip']);
});

const pieceOf = (petId: number, note: string) => new Piece(Buffer.from(`,{"petId":${petId},"note":"${note}"}`));
const pieceOfBytes = (bytes: number) => pieceOf(1, 'x'.repeat(bytes - pieceOf(1, '').bytes.length));
const [a, b, c] = [pieceOfBytes(2 ** 24), pieceOfBytes(2 ** 24), pieceOfBytes(2 ** 24 + 1)];
const [more, less] = [pieceOf(2, 'more'), pieceOf(2, 'less')];

it('compresses at most 64 pieces at once', async () => {
  const lists = [40, 10, 25, 24].map(
    (pieces) => new StockList(Array.from({ length: pieces }, (_, petId) => pieceOf(petId, 'a'))),
  ) as [StockList, ...StockList[]];
  const url = await serve(lists);
  const codingOf = async (list: number) => {
    const response = await fetch(`${url}/${list}`);
    await response.text();
    return response.headers.get('content-encoding');
  };
  const { promise: memory, resolve } = Promise.withResolvers<undefined>();
  const gzip = vi.spyOn(lists[0], 'gzip');
  gzip.mockImplementationOnce(() => memory.then(() => lists[0].gzip()));
  const forty = codingOf(0);
  await expect.poll(() => gzip).toHaveBeenCalled();
  expect([await codingOf(1), await codingOf(2), await codingOf(3)]).toEqual(['gzip', null, 'gzip']);
  resolve(undefined);
  expect(await forty).toBe('gzip');
});

it('sends each character of a short list as UTF-8', async () => {
  const url = await serve([new StockList([pieceOf(1, 'ü')])]);
  expect(await (await fetch(`${url}/0`, { headers: { 'Accept-Encoding': 'identity' } })).json()).toEqual([
    { petId: 1, note: 'ü' },
  ]);
});

const joined = (one: Piece, other: Piece) => new Piece(Buffer.concat([one.bytes, other.bytes]));

it.each<[string, readonly Piece[][], readonly number[], number, string]>([
  [
    'cuts off all who read the oldest list slowly when outdated ones take more than 32 MiB',
    [[a], [c], [b]],
    [0, 0, 0, 1, 2],
    1,
    'rejected',
  ],
  ['lets outdated lists take 32 MiB', [[a], [b], [c]], [0, 1, 2], NaN, 'fulfilled'],
  ['counts what outdated lists share once', [[a, more], [a, less], [b]], [0, 1, 2], NaN, 'fulfilled'],
  ['counts no list that has been read', [[a], [c], [b]], [0, 1, 2], 1, 'fulfilled'],
  ['lets outdated lists take what the present one takes', [[joined(a, c)], [joined(b, c)]], [0, 1], NaN, 'fulfilled'],
])('%s', async (_, lists, reads, readAtOnce, ofOldest) => {
  const url = await serve(lists.map((pieces) => new StockList(pieces)));
  const headers = { 'Accept-Encoding': 'identity' };
  const answers: Response[] = [];
  for (const [at, list] of reads.entries()) {
    const answer = await fetch(`${url}/${list}`, { headers });
    answers.push(at === readAtOnce ? new Response(await answer.text()) : answer);
  }
  const bodies = await Promise.allSettled(answers.map((answer) => answer.arrayBuffer()));
  const expected = reads.map((list, at) => (list === 0 && at !== readAtOnce ? ofOldest : 'fulfilled'));
  expect(bodies.map(({ status }) => status)).toEqual(expected);
});

it('counts no list whose reader has gone', async () => {
  const send = vi.spyOn(ListResponses.prototype, 'send');
  onTestFinished(() => send.mockRestore());
  const url = await serve([[a], [c], [b]].map((pieces) => new StockList(pieces)));
  const get = (list: number) => fetch(`${url}/${list}`, { headers: { 'Accept-Encoding': 'identity' } });
  const slow = await get(0);
  const gone = await get(1);
  const closed = once(send.mock.lastCall?.[1] as ServerResponse, 'close');
  await gone.body?.cancel();
  await closed;
  const present = await get(2);
  expect([await slow.json(), await present.json()]).toEqual([[expect.anything()], [expect.anything()]]);
});

it('counts who gets an outdated list when its other readers have just been cut off', async () => {
  const pieces = [a, c, b, ...Array.from({ length: 3 }, () => pieceOfBytes(2 ** 24))];
  const lists = pieces.map((piece) => new StockList([piece])) as [StockList, ...StockList[]];
  const { promise: late, resolve: serveLate } = Promise.withResolvers<() => Promise<void>>();
  const spy = vi.spyOn(ListResponses.prototype, 'send');
  onTestFinished(() => spy.mockRestore());
  const url = await serve(lists);
  const get = (list: number) => fetch(`${url}/${list}`, { headers: { 'Accept-Encoding': 'identity' } });
  spy.mockImplementationOnce(function (this: ListResponses, request, response) {
    serveLate(() => this.send(request, response, lists[0])); // what this request gets, but later
    return Promise.resolve();
  });
  const answerOfLate = get(0);
  const sendLate = await late;
  const answers = [await get(0)];
  const closed = once(spy.mock.lastCall?.[1] as ServerResponse, 'close');
  answers.push(await get(1));
  spy.mockImplementationOnce(function (this: ListResponses, ...args) {
    return Promise.all([this.send(...args), sendLate()]).then(() => undefined); // in one turn
  });
  answers.push(await get(2), await answerOfLate);
  await closed;
  for (const list of [3, 4, 5]) answers.push(await get(list));
  const bodies = await Promise.allSettled(answers.map((answer) => answer.arrayBuffer()));
  const ended = bodies.map(({ status }) => status);
  expect(ended).toEqual([...Array<string>(4).fill('rejected'), ...Array<string>(3).fill('fulfilled')]);
});
