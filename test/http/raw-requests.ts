import { expect, onTestFinished } from 'vitest';
import { type WholeAnswer, refused, whole } from '../support/answers.ts';
import { Connection } from '../support/http-client.ts';

/** Requests that no well-behaved client sends, byte for byte, for the service and for what stands in front of it. */

export const FIVE = '{"quantity":5}';

const GET = 'GET /v1/inventory HTTP/1.1\r\nHost: a\r\n';

export const MALFORMED_HEADS: readonly [name: string, bytes: string][] = [
  ['garbage', 'garbage\r\n\r\n'],
  ['TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
  ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ['no target', 'GET HTTP/1.1\r\nHost: a\r\n\r\n'],
  ['HTTP/1.2', 'GET / HTTP/1.2\r\nHost: a\r\n\r\n'],
  ['lower case', 'GET / http/1.1\r\nHost: a\r\n\r\n'],
  ['a space in the target', 'GET /a b HTTP/1.1\r\nHost: a\r\n\r\n'],
  ['a header without a colon', `${GET}nonsense\r\n\r\n`],
  ['a header without a name', `${GET}: x\r\n\r\n`],
  ['a space before the colon', `${GET}X : x\r\n\r\n`],
  ['a name that is none', `${GET}X(Y): x\r\n\r\n`],
  ['NUL in a value', `${GET}X: a\0b\r\n\r\n`],
  ['a bare CR in a value', `${GET}X: a\rb\r\n\r\n`],
  ['a folded header', `${GET}Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n`],
  ['two lengths', `${GET}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello`],
  ['a list of lengths', `${GET}Content-Length: 5, 5\r\n\r\nhello`],
  ['a signed length', `${GET}Content-Length: +5\r\n\r\nhello`],
  ['a hexadecimal length', `${GET}Content-Length: 0x5\r\n\r\nhello`],
  ['a length of 30 digits', `${GET}Content-Length: ${'9'.repeat(30)}\r\n\r\n`],
  ['length and chunks', `${GET}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
  ['chunks and length', `${GET}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n`],
  ['chunks not last', `${GET}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n`],
];

export const REFUSED_HEADS: readonly [name: string, bytes: string, expected: WholeAnswer][] = [
  ['no Host', 'GET / HTTP/1.1\r\n\r\n', refused.noHost],
  ['two Hosts', 'GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n', refused.noHost],
  ['two Hosts in HTTP/1.0', 'GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n', refused.noHost],
  ['a Host with a path', 'GET / HTTP/1.1\r\nHost: a/b\r\n\r\n', refused.host],
  ['a Host with a space', 'GET / HTTP/1.1\r\nHost: a b\r\n\r\n', refused.host],
  ['a list of Hosts', 'GET / HTTP/1.1\r\nHost: a, b\r\n\r\n', refused.host],
  ['no version', 'GET /v1/inventory\r\nHost: a\r\n\r\n', refused.httpVersion],
  ['HTTP/2.0', 'GET / HTTP/2.0\r\nHost: a\r\n\r\n', refused.httpVersion],
  ['HTTP/0.9', 'GET / HTTP/0.9\r\nHost: a\r\n\r\n', refused.httpVersion],
  ['an unknown coding', 'GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\n\r\n', refused.transferCoding],
  ['two codings', 'GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n', refused.transferCoding],
  [
    'a coding in HTTP/1.0',
    'GET / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    refused.transferCoding,
  ],
  ['65 headers', `GET / HTTP/1.1\r\nHost: a\r\n${'X:\r\n'.repeat(64)}\r\n`, refused.tooManyHeaders],
  ['2,500 headers', `GET / HTTP/1.1\r\nHost: a\r\n${'X:\r\n'.repeat(2_500)}\r\n`, refused.tooManyHeaders],
];

export const LARGE_HEADS: readonly [name: string, bytes: string][] = [
  ['a header of 9 KiB', `${GET}X: ${'x'.repeat(9_000)}\r\n\r\n`],
  ['a header of 2 MiB', `${GET}X: ${'x'.repeat(2_000_000)}\r\n\r\n`],
  ['a name of 9 KiB', `${GET}${'x'.repeat(9_000)}: x\r\n\r\n`],
  ['many headers', `${GET}${`X: ${'x'.repeat(500)}\r\n`.repeat(20)}\r\n`],
];

export const CHUNKED = 'Transfer-Encoding: chunked\r\n';
export const LENGTH = `Content-Length: ${FIVE.length}\r\n`;

/** Bodies of an update whose head has {@link CHUNKED}. */
export const MALFORMED_BODIES: readonly [name: string, body: string][] = [
  ['a chunk size that is none', 'zz\r\n'],
  ['a chunk size with a sign', '-1\r\n'],
  ['a chunk size of 20 digits', `${'f'.repeat(20)}\r\n`],
  ['a chunk longer than it says', `5\r\n${FIVE}\r\n0\r\n\r\n`],
  ['a malformed trailer', `e\r\n${FIVE}\r\n0\r\nnonsense\r\n\r\n`],
];

/** What is no request at all, behind good ones. */
export const GARBAGE = ['garbage\r\n\r\n', 'GET / HTTP/1.1\r\nbroken\r\n\r\n', `X: ${'x'.repeat(20_000)}`];

/** An update that expects `100 Continue`, with one thing changed for which it is refused before its body. */
export const REFUSED_BEFORE_BODY: readonly [name: string, from: RegExp, to: string, expected: WholeAnswer][] = [
  ['no key', /Bearer .*/, 'Bearer x', refused.badKey],
  ['media type', /application\/json/, 'text/plain', refused.mediaType],
  ['size', /Content-Length: \d+/, 'Content-Length: 2000', refused.tooLarge],
];

/** The head of an update ends with `headers`, lines with their ends. */
export function updateBytes(key: string, headers: string, body: string, petId = 1): string {
  const head = `PATCH /v1/inventory/${petId} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n`;
  return `${head}Content-Type: application/json\r\n${headers}\r\n${body}`;
}

export function listBytes(key: string): string {
  return `${GET}Authorization: Bearer ${key}\r\n\r\n`;
}

/** A connection of the test's own on which this was sent. */
export async function sendOn(port: number, bytes = ''): Promise<Connection> {
  const connection = await Connection.open(port);
  onTestFinished(() => connection.destroy());
  return connection.send(bytes);
}

/** The answer with which the server closes the connection. */
export async function lastAnswer(connection: Connection): Promise<WholeAnswer> {
  const answer = await connection.answer();
  expect(answer.headers).toMatchObject({
    connection: 'close',
    date: expect.any(String) as string,
    'x-request-id': expect.stringMatching(/^[\w-]{1,64}$/) as string,
  });
  expect(await connection.closed()).toBe('');
  return whole(answer);
}
