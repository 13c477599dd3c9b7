import { gzipSync } from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';
import { type WholeAnswer, refused, updated, whole } from '../support/answers.ts';
import { type HeaderLines, ask } from '../support/http-client.ts';
import { type TestService, startService } from '../support/service.ts';
import { FIVE } from './raw-requests.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService();
  await service.stock([1, 0], [2, 7]);
});

const JSON_TYPE: HeaderLines = [['Content-Type', 'application/json']];
const CHUNKED: HeaderLines = [...JSON_TYPE, ['Transfer-Encoding', 'chunked']];

async function patch(petId: number, headers: HeaderLines, body?: string | Buffer): Promise<WholeAnswer> {
  const authorized: HeaderLines = [['Authorization', `Bearer ${service.key}`], ...headers];
  const question = { method: 'PATCH', target: `/v1/inventory/${petId}`, headers: authorized };
  return whole(await ask(service.port, body === undefined ? question : { ...question, body }));
}

async function expectAccepted(headers: HeaderLines, body: string): Promise<void> {
  expect(await patch(1, headers, body)).toEqual(updated('1', 5));
}

/** Expects a refusal that changes neither the pet nor its history. */
async function expectRefused(expected: WholeAnswer, headers: HeaderLines, body?: string | Buffer): Promise<void> {
  const changes = () => service.sql('SELECT quantity_after FROM stock_change WHERE pet_id = 2 ORDER BY id');
  const before = await changes();
  expect(await patch(2, headers, body)).toEqual(expected);
  expect(await changes()).toEqual(before);
}

function chunked(...chunks: readonly string[]): string {
  return [...chunks, ''].map((chunk) => `${Buffer.byteLength(chunk).toString(16)}\r\n${chunk}\r\n`).join('');
}

describe('PATCH /v1/inventory/:petId, headers of the body', () => {
  it.each([
    ...['APPLICATION/JSON', 'application/json;', 'application/json;v=1; charset=utf-8'],
    ...['utf-8', '"utf-8"', 'utf-8; charset=utf-8', ' UTF8 '].map((name) => `application/json ;  Charset=${name}`),
  ])('accepts the Content-Type %j', (type) => expectAccepted([['Content-Type', type]], FIVE));

  it.each([
    ...['', 'text/plain', 'application/json+x', 'text/plain; application/json'], // not JSON
    ...['application /json', 'application/json, text/plain', 'application/json charset=utf-8'], // malformed
    ...['latin1', 'utf-16', '"utf8', '', 'utf-8; charset=latin1', "'utf-8'"].map(
      (name) => `application/json; charset=${name}`,
    ),
  ])('refuses the Content-Type %j', (type) => expectRefused(refused.mediaType, [['Content-Type', type]], FIVE));

  it.each<[string, HeaderLines, string]>([
    ['no Content-Type', [], FIVE],
    ['another Content-Type, although it is empty,', [['Content-Type', 'text/plain']], ''],
  ])('refuses a body with %s', (_, headers, body) => expectRefused(refused.mediaType, headers, body));

  it.each([
    ['gzip', gzipSync(FIVE)],
    ['', FIVE],
  ])('refuses the Content-Encoding %j', (coding, body) =>
    expectRefused(refused.contentEncoding, [...JSON_TYPE, ['Content-Encoding', coding]], body),
  );
});

describe('PATCH /v1/inventory/:petId, size of the body', () => {
  it.each<[string, HeaderLines, string]>([
    ['1 KiB', JSON_TYPE, FIVE.padEnd(1024)],
    ['a chunk for each byte', CHUNKED, chunked(...Array.from(FIVE))],
    ['a long trailer', CHUNKED, chunked(FIVE).replace(/\r\n$/, `X-Trailer: ${'x'.repeat(1024)}\r\n\r\n`)],
  ])('accepts %s', (_, headers, body) => expectAccepted(headers, body));

  it.each<[string, HeaderLines, string]>([
    ['1 KiB and 1 byte', JSON_TYPE, FIVE.padEnd(1025)],
    ['a Content-Length of 1025 before the body arrives', [...JSON_TYPE, ['Content-Length', '1025']], ''],
    ['a Content-Length above 2^53', [...JSON_TYPE, ['Content-Length', '9007199254740993']], ''],
    ['an unfinished chunk', CHUNKED, `1000\r\n${' '.repeat(1025)}`],
  ])('refuses %s', (_, headers, body) => expectRefused(refused.tooLarge, headers, body));
});

describe('PATCH /v1/inventory/:petId, text of the body', () => {
  it.each<[string, HeaderLines, string?]>([
    ['no header', []],
    ['a Content-Type alone', JSON_TYPE],
    ['an empty chunked body', CHUNKED, chunked()],
    ['a byte order mark alone', JSON_TYPE, '\ufeff'],
  ])('refuses a request without a body: %s', (_, headers, body) => expectRefused(refused.noBody, headers, body));

  it.each([' \t\r\n{ "quantity" :\n5 } \r\n', '{"\\u0071uantity":5}', `\ufeff${FIVE}`, `\ufeff \r\n${FIVE}`])(
    'accepts %j',
    (body) => expectAccepted(JSON_TYPE, body),
  );

  it.each<[string, string | Buffer, WholeAnswer]>([
    ['two byte order marks', `\ufeff\ufeff${FIVE}`, refused.notJson],
    ['UTF-16 with a byte order mark', Buffer.from(`\ufeff${FIVE}`, 'utf16le'), refused.notUtf8],
    ['NUL behind the object', `${FIVE}\0`, refused.notUtf8],
    ['an invalid byte in a name', Buffer.from('{"quantity\xff":5}', 'latin1'), refused.notUtf8],
    ['null', 'null', refused.notObject('null')],
    ['512 arrays in each other', `${'['.repeat(512)}${']'.repeat(512)}`, refused.notObject('an array')],
    ['1,024 arrays that never end', '['.repeat(1024), refused.notJson],
  ])('refuses %s', (_, body, expected) => expectRefused(expected, JSON_TYPE, body));
});

describe('PATCH /v1/inventory/:petId, a body that is not JSON', () => {
  it.each([
    ...['{quantity:5}', `'{"quantity":5}'`, '{\\"quantity\\":5}', '{\u201cquantity\u201d:5}', 'quantity=5'],
    ...['{"quantity":5,}', '{"quantity" 5}', '{"quantity":5', '{"quantity":NaN}', '<quantity/>', '5 5'],
  ])('is refused with a word about shells: %s', (body) => expectRefused(refused.notJson, JSON_TYPE, body));
});

describe('PATCH /v1/inventory/:petId, members of the body', () => {
  it.each([
    ['{}', refused.quantity('missing')],
    ['{"quantity":5,"status":"sold"}', refused.unknownMember('status')],
    ['{"quantity":5,"__proto__":{}}', refused.unknownMember('__proto__')],
    [`{"quantity":5,"${'x'.repeat(32)}":1}`, refused.unknownMember('A member')], // as long as the shortest key
    ['{"quantity":5,"qu\\u0061ntity":6}', refused.repeated('quantity')],
    ['{"quantity":{},"quantity":5}', refused.repeated('quantity')],
    ['{"quantity":{"x":1,"x":2}}', refused.repeated('x')],
    ['{"quantity":"quantity","a":"quantity"}', refused.unknownMember('a')],
    ['{"a\\"b":1,"a\\"b":2}', refused.repeated('A member')],
  ])('refuses %s', (body, expected) => expectRefused(expected, JSON_TYPE, body));

  it('never become members of all objects', () => {
    expect(Object.keys(Object.prototype)).toEqual([]);
  });
});

describe('PATCH /v1/inventory/:petId, quantity', () => {
  it.each([
    ['smaller', ['-1', '-9999999999', '-1e400']],
    ['larger (10 digits)', ['2147483648', '4294967301']], // 4294967301 is 5 modulo 2^32
    ['larger (12 digits)', ['123456789012']],
    ['larger', ['18446744073709551621', '1e400']], // the first is 5 modulo 2^64
    ['a fraction', ['3.5', '-1.5', '5e-324', '2147483647.5']],
    ['a text', ['"5"', '""', '"secret"']],
    ['true or false', ['true', 'false']],
    ['null', ['null']],
    ['an array', ['[5]', '[]']],
    ['an object', ['{}', '{"valueOf":5}']],
  ])('is refused, and the message says what it is: %s', async (found, values) => {
    for (const json of values) await expectRefused(refused.quantity(found), JSON_TYPE, `{"quantity":${json}}`);
  });

  it.each(['available', 'pending', 'sold'] as const)('changes nothing of the status %s, at 0 too', async (status) => {
    await service.stock([80, 5, status]);
    expect(await patch(80, JSON_TYPE, '{"quantity":0}')).toEqual(updated('80', 0, status));
    expect(await patch(80, JSON_TYPE, FIVE)).toEqual(updated('80', 5, status));
  });
});
