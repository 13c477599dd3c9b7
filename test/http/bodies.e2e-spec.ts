import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type WholeAnswer, refused, updated, whole } from '../support/answers.ts';
import { type HeaderLines, ask } from '../support/http-client.ts';
import { type TestService, startService } from '../support/service.ts';
import { FIVE } from './raw-requests.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService();
  await service.stock([1, 0], [2, 7]);
});
afterAll(() => service.stop());

const JSON_TYPE: HeaderLines = [['Content-Type', 'application/json']];
const CHUNKED: HeaderLines = [...JSON_TYPE, ['Transfer-Encoding', 'chunked']];

async function patch(petId: number, headers: HeaderLines, body?: string | Buffer): Promise<WholeAnswer> {
  const answer = await ask(service.port, {
    method: 'PATCH',
    target: `/v1/inventory/${petId}`,
    headers: [['Authorization', `Bearer ${service.key}`], ...headers],
    ...(body === undefined ? {} : { body }),
  });
  return whole(answer);
}

async function expectTaken(headers: HeaderLines, body: string): Promise<void> {
  expect(await patch(1, headers, body)).toEqual(updated('1', 5));
}

/** Refused, and the pet is as it was. */
async function expectRefused(expected: WholeAnswer, headers: HeaderLines, body?: string | Buffer): Promise<void> {
  expect(await patch(2, headers, body)).toEqual(expected);
  expect(await service.sql('SELECT quantity FROM inventory_item WHERE pet_id = 2')).toEqual([{ quantity: 7 }]);
  expect(await service.sql('SELECT 1 FROM stock_change WHERE pet_id = 2 AND quantity_before IS NOT NULL')).toEqual([]);
}

function chunked(...chunks: readonly string[]): string {
  return [...chunks, ''].map((chunk) => `${Buffer.byteLength(chunk).toString(16)}\r\n${chunk}\r\n`).join('');
}

describe('PATCH /v1/inventory/:petId, media type of the body', () => {
  const takes = (type: string) => expectTaken([['Content-Type', type]], FIVE);
  const refuses = (type: string) => expectRefused(refused.mediaType, [['Content-Type', type]], FIVE);

  it.each(['APPLICATION/JSON', 'application/json;', 'application/json;v=1; charset=utf-8'])('takes %s', takes);

  it.each(['utf-8', ' utf-8', 'UTF-8 ', '"utf-8"', 'utf-8; charset=utf-8'])(
    'takes application/json ;  charset=%s',
    (charset) => takes(`application/json ;  Charset=${charset}`),
  );

  it.each(['', 'text/plain', 'application/json+x', '*/*', 'text/plain; application/json'])(
    'refuses "%s": it is no JSON',
    refuses,
  );

  it.each(['application /json', 'application/json, text/plain', 'application/json charset=utf-8'])(
    'refuses %s: it is malformed',
    refuses,
  );

  it.each(['latin1', 'utf-8999', '', 'utf-8; charset=latin1', 'latin1; charset=utf-8', "'utf-8'"])(
    'refuses application/json; charset=%s',
    (charset) => refuses(`application/json; charset=${charset}`),
  );

  it('is required with a body, be its length known or not, and may not be given twice', async () => {
    await expectRefused(refused.mediaType, [], FIVE);
    await expectRefused(refused.mediaType, [['Transfer-Encoding', 'chunked']], chunked(FIVE));
    await expectRefused(refused.mediaType, [...JSON_TYPE, ...JSON_TYPE], FIVE);
  });
});

describe('PATCH /v1/inventory/:petId, content coding of the body', () => {
  it.each([
    ['gzip', gzipSync(FIVE)],
    ['identity', FIVE],
    ['', FIVE],
  ])('refuses "%s"', async (coding, body) => {
    await expectRefused(refused.contentEncoding, [...JSON_TYPE, ['Content-Encoding', coding]], body);
  });
});

describe('PATCH /v1/inventory/:petId, size of the body', () => {
  it.each([15, 1024])('takes %i bytes', (length) => expectTaken(JSON_TYPE, FIVE.padEnd(length)));

  it.each([1025, 65_536, 1_000_000])('refuses %i bytes', async (length) => {
    await expectRefused(refused.tooLarge, JSON_TYPE, FIVE.padEnd(length));
  });

  it.each(['1025', '9007199254740993'])(
    'refuses a Content-Length of %s before a byte of the body has come',
    async (length) => {
      await expectRefused(refused.tooLarge, [...JSON_TYPE, ['Content-Length', length]], '');
    },
  );

  it.each([[FIVE.split('')], [[FIVE, ' '.repeat(1010)]]])('takes chunks up to 1 KiB: %j', (chunks) =>
    expectTaken(CHUNKED, chunked(...chunks)),
  );

  it.each([
    ['one chunk', chunked(FIVE.padEnd(1025))],
    ['many chunks', chunked(...Array<string>(200).fill(' '.repeat(10)))],
    ['chunks that are still coming', `1000\r\n${' '.repeat(1025)}`],
  ])('refuses more than 1 KiB in %s', (_, body) => expectRefused(refused.tooLarge, CHUNKED, body));

  it('does not count a trailer', () =>
    expectTaken(CHUNKED, chunked(FIVE).replace(/\r\n$/, `X-Trailer: ${'x'.repeat(1024)}\r\n\r\n`)));
});

describe('PATCH /v1/inventory/:petId, text of the body', () => {
  it.each<[string, HeaderLines, string?]>([
    ['no header', []],
    ['Content-Type alone', JSON_TYPE],
    ['Content-Length 0 alone', [], ''],
    ['Content-Type and Content-Length 0', JSON_TYPE, ''],
    ['no chunk', CHUNKED, chunked()],
  ])('is required: %s', (_, headers, body) => expectRefused(refused.noBody, headers, body));

  it.each([
    ['spaces', ' \t\r\n{ "quantity" :\n5 } \r\n'],
    ['an escaped name', '{"\\u0071uantity":5}'],
  ])('may have %s', (_, body) => expectTaken(JSON_TYPE, body));

  it.each<[string, string | Buffer, WholeAnswer]>([
    ['a byte order mark', `\ufeff${FIVE}`, refused.notJson],
    ['an invalid byte in a name', Buffer.from('{"quantity\xff":5}', 'latin1'), refused.notUtf8],
    ['a surrogate in UTF-8', Buffer.from('{"\xed\xa0\x80":5}', 'latin1'), refused.notUtf8],
    ['only spaces', '   ', refused.notJson],
    ['two objects', `${FIVE}${FIVE}`, refused.notJson],
    ['null', 'null', refused.notObject],
    ['a number', '5', refused.notObject],
    ['an array', `[${FIVE}]`, refused.notObject],
    ['an array of arrays, 512 deep', `${'['.repeat(512)}${']'.repeat(512)}`, refused.notObject],
    ['opened 1024 times', '['.repeat(1024), refused.notJson],
    ['an object in an object, 170 deep', `${'{"a":'.repeat(170)}1${'}'.repeat(170)}`, refused.unknownMember('a')],
    ['quantity, 75 deep', `${'{"quantity":'.repeat(75)}1${'}'.repeat(75)}`, refused.quantity],
  ])('is refused: %s', (_, body, expected) => expectRefused(expected, JSON_TYPE, body));
});

describe('PATCH /v1/inventory/:petId, members of the body', () => {
  it.each([
    ['{}', refused.quantity],
    ['{"Quantity":5}', refused.unknownMember('Quantity')],
    ['{"quantity":5,"status":"sold"}', refused.unknownMember('status')],
    ['{"quantity":5,"__proto__":{}}', refused.unknownMember('__proto__')],
    ['{"quantity":5,"constructor":{"prototype":{"x":1}}}', refused.unknownMember('constructor')],
    ['{"quantity":5,"prototype":{}}', refused.unknownMember('prototype')],
    ['{"quantity":5,"":1}', refused.unknownMember('A member')],
    ['{"quantity":5,"pet-id.$x":1}', refused.unknownMember('pet-id.$x')],
    [`{"quantity":5,"${'x'.repeat(32)}":1}`, refused.unknownMember('A member')], // as short as a key may be
    [`{${Array.from({ length: 100 }, (_, n) => `"m${n}":1`).join(',')}}`, refused.unknownMember('m0')],
    ['{"quantity":5,"qu\\u0061ntity":6}', refused.repeated('quantity')],
    ['{"quantity":{"x":1,"x":2}}', refused.repeated('x')],
    ['{"quantity":[{"x":1},{"x":2}]}', refused.quantity],
    ['{"__proto__":1,"__proto__":2}', refused.repeated('__proto__')],
    ['{"quantity":"quantity","a":"quantity"}', refused.unknownMember('a')],
    ['{"a\\"b":1,"a\\"b":2}', refused.repeated('A member')],
    ['{"a\\\\":1,"a\\\\":2}', refused.repeated('A member')],
  ])('%s is refused', (body, expected) => expectRefused(expected, JSON_TYPE, body));

  it('leave the members of every other object alone when they are refused', () => {
    expect(Object.keys(Object.prototype)).toEqual([]);
    expect(({} as Record<string, unknown>)['quantity']).toBeUndefined();
  });
});

describe('PATCH /v1/inventory/:petId, quantity', () => {
  it.each([
    ['0', 0],
    ['-0', 0],
    ['5.0', 5],
    ['1e2', 100],
    ['2147483647', 2147483647],
    ['5.00000000000000000001', 5], // what JSON.parse rounds to an integer is that integer
    ['1e-400', 0],
  ])('takes %s for %i', async (json, quantity) => {
    expect(await patch(1, JSON_TYPE, `{"quantity":${json}}`)).toEqual(updated('1', quantity));
  });

  const refusesQuantity = (json: string) => expectRefused(refused.quantity, JSON_TYPE, `{"quantity":${json}}`);

  // The third and the fifth are 5 modulo 2^32 and 2^64.
  it.each(['-1', '2147483648', '4294967301', '9223372036854775807', '18446744073709551621', '1e400'])(
    'refuses %s: it is out of range',
    refusesQuantity,
  );

  it.each(['1.5', '-0.1', '5e-324', '"5"', '"0x5"', 'true', 'null', '[5]', '{}', '{"valueOf":5}'])(
    'refuses %s: it is no integer',
    refusesQuantity,
  );

  it.each(['05', '+5', '5.', 'NaN', '', "'5'", '5 5'])('refuses %s: it is no JSON', (json) =>
    expectRefused(refused.notJson, JSON_TYPE, `{"quantity":${json}}`),
  );

  it.each(['available', 'pending', 'sold'] as const)('leaves the status %s as it is, at 0 too', async (status) => {
    await service.stock([80, 5, status]);
    expect(await patch(80, JSON_TYPE, '{"quantity":0}')).toEqual(updated('80', 0, status));
    expect(await patch(80, JSON_TYPE, FIVE)).toEqual(updated('80', 5, status));
  });
});
