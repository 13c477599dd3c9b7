import { expect, onTestFinished } from 'vitest';
import { type WholeAnswer, refused, whole } from '../support/answers.ts';
import { Connection } from '../support/http-client.ts';

/** Requests that well-behaved clients never send. */

export const FIVE = '{"quantity":5}';

const GET = 'GET /v1/inventory HTTP/1.1\r\nHost: a\r\n';

export const MALFORMED_HEADS: readonly [name: string, bytes: string][] = [
  ['a version without a digit', 'GET / HTTP/a.b\r\nHost: a\r\n\r\n'],
  ['a space in the target', 'GET /a b HTTP/1.1\r\nHost: a\r\n\r\n'],
  ['a header without a colon', `${GET}nonsense\r\n\r\n`],
  ['a space before the colon', `${GET}X : x\r\n\r\n`],
  ['NUL in a value', `${GET}X: a\0b\r\n\r\n`],
  ['a bare CR in a value', `${GET}X: a\rb\r\n\r\n`],
  ['a folded header', `${GET}Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n`],
  ['two lengths', `${GET}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello`],
  ['a list of lengths', `${GET}Content-Length: 5, 5\r\n\r\nhello`],
  ['a signed length', `${GET}Content-Length: +5\r\n\r\nhello`],
  ['length and chunks', `${GET}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
  ['chunks not last', `${GET}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n`],
];

export const REFUSED_HEADS: readonly [name: string, bytes: string, expected: WholeAnswer][] = [
  ['garbage', 'garbage\r\n\r\n', refused.unknownMethod],
  ['TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', refused.unknownMethod],
  ['a method in small letters', 'patch /v1/inventory/1 HTTP/1.1\r\nHost: a\r\n\r\n', refused.unknownMethod],
  ['a longer method', 'PATCHES / HTTP/1.1\r\nHost: a\r\n\r\n', refused.unknownMethod],
  ['no Host', 'GET / HTTP/1.1\r\n\r\n', refused.noHost],
  ['two Hosts in HTTP/1.0', 'GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n', refused.noHost],
  ['a Host with a path', 'GET / HTTP/1.1\r\nHost: a/b\r\n\r\n', refused.host],
  ['a list of Hosts', 'GET / HTTP/1.1\r\nHost: a, b\r\n\r\n', refused.host],
  ['no version', 'GET /v1/inventory\r\nHost: a\r\n\r\n', refused.httpVersion],
  ['HTTP/2 from its first byte on', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', refused.httpVersion],
  ['HTTP/1.2', 'GET / HTTP/1.2\r\nHost: a\r\n\r\n', refused.httpVersion],
  ['HTTP/3.0', 'GET / HTTP/3.0\r\nHost: a\r\n\r\n', refused.httpVersion],
  ['no target', 'GET HTTP/1.1\r\nHost: a\r\n\r\n', refused.target],
  ['a URN as target', 'GET urn:isbn:1 HTTP/1.1\r\nHost: a\r\n\r\n', refused.target],
  ['a host as target', 'GET a:80 HTTP/1.1\r\nHost: a\r\n\r\n', refused.target],
  ['a length of 20 digits', `${GET}Content-Length: ${'9'.repeat(20)}\r\n\r\n`, refused.malformed],
  ['HTTP/2.0', 'GET / HTTP/2.0\r\nHost: a\r\n\r\n', refused.httpVersion],
  ['an unknown coding', 'GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\n\r\n', refused.transferCoding],
  ['two codings', 'GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n', refused.transferCoding],
  [
    'a coding in HTTP/1.0',
    'GET / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    refused.transferCoding,
  ],
  ['101 headers', `GET / HTTP/1.1\r\nHost: a\r\n${'X:\r\n'.repeat(100)}\r\n`, refused.tooManyHeaders],
  ['2,500 headers', `GET / HTTP/1.1\r\nHost: a\r\n${'X:\r\n'.repeat(2_500)}\r\n`, refused.tooManyHeaders],
];

export const CHUNKED = 'Transfer-Encoding: chunked\r\n';
export const LENGTH = `Content-Length: ${FIVE.length}\r\n`;

/** @param headers more lines of the head, each with its line break */
export function updateBytes(key: string, headers: string, body: string, petId = 1): string {
  const head = `PATCH /v1/inventory/${petId} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n`;
  return `${head}Content-Type: application/json\r\n${headers}\r\n${body}`;
}

export function listBytes(key: string): string {
  return `${GET}Authorization: Bearer ${key}\r\n\r\n`;
}

/** Sends bytes on a new connection, which ends with the test. */
export async function sendOn(port: number, bytes = ''): Promise<Connection> {
  const connection = await Connection.open(port);
  onTestFinished(() => connection.destroy());
  return connection.send(bytes);
}

/** The answer after which the service closes the connection. */
export async function lastAnswer(connection: Connection): Promise<WholeAnswer> {
  const answer = await connection.answer();
  expect(answer.headers).toMatchObject({
    connection: 'close',
    date: expect.stringMatching(/^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/) as string,
  });
  expect(await connection.closed()).toBe('');
  return whole(answer);
}
