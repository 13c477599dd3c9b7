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

/** Refused, and the pet is as it was. */
async function expectRefused(expected: WholeAnswer, headers: HeaderLines, body?: string | Buffer): Promise<void> {
  expect(await patch(2, headers, body)).toEqual(expected);
  expect(await service.sql('SELECT quantity FROM inventory_item WHERE pet_id = 2')).toEqual([{ quantity: 7 }]);
  expect(await service.sql('SELECT 1 FROM stock_change WHERE pet_id = 2 AND quantity_before IS NOT NULL')).toEqual([]);
}

function chunked(...chunks: readonly string[]): string {
  return [...chunks, ''].map((chunk) => `${Buffer.byteLength(chunk).toString(16)}\r\n${chunk}\r\n`).join('');
}

function ofBytes(length: number): string {
  return FIVE.padEnd(length);
}

describe('PATCH /v1/inventory/:petId, media type of the body', () => {
  it.each([
    'application/json',
    'APPLICATION/JSON',
    'application/json;charset=utf-8',
    'application/json; charset=utf-8',
    'application/json; charset=UTF-8',
    'application/json; Charset="utf-8"',
    'application/json ; charset=utf-8',
    'application/json;  charset=utf-8 ',
    'application/json; charset=utf-8; charset=utf-8',
    'application/json;',
    'application/json; profile=x',
    'application/json;v=1; charset=utf-8',
  ])('%s is taken', async (type) => {
    expect(await patch(1, [['Content-Type', type]], FIVE)).toEqual(updated('1', 5));
  });

  it.each([
    '',
    'text/plain',
    'application/json+x',
    'application/json-patch+json',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    '*/*',
    'application/json, text/plain',
    'text/plain; application/json',
    'application /json',
    'application/json charset=utf-8',
    'application/json; charset=latin1',
    'application/json; charset=utf-16',
    'application/json; charset=utf-8999',
    'application/json; charset=',
    'application/json; charset=utf-8; charset=latin1',
    'application/json; charset=latin1; charset=utf-8',
    "application/json; charset='utf-8'",
  ])('%s is refused', async (type) => {
    await expectRefused(refused.mediaType, [['Content-Type', type]], FIVE);
  });

  it('is required with a body', () => expectRefused(refused.mediaType, [], FIVE));

  it('is required with a body of unknown length', () =>
    expectRefused(refused.mediaType, [['Transfer-Encoding', 'chunked']], chunked(FIVE)));

  it('may not be given twice', () => expectRefused(refused.mediaType, [...JSON_TYPE, ...JSON_TYPE], FIVE));
});

describe('PATCH /v1/inventory/:petId, content coding of the body', () => {
  it.each([
    ['gzip', gzipSync(FIVE)],
    ['identity', Buffer.from(FIVE)],
    ['', Buffer.from(FIVE)],
  ])('%s is refused', async (coding, body) => {
    await expectRefused(refused.contentEncoding, [...JSON_TYPE, ['Content-Encoding', coding]], body);
  });
});

describe('PATCH /v1/inventory/:petId, size of the body', () => {
  it.each([14, 15, 1023, 1024])('%i bytes are taken', async (length) => {
    expect(await patch(1, JSON_TYPE, ofBytes(length))).toEqual(updated('1', 5));
  });

  it.each([1025, 1026, 2048, 10_000, 65_536, 1_000_000])('%i bytes are refused', async (length) => {
    await expectRefused(refused.tooLarge, JSON_TYPE, ofBytes(length));
  });

  it.each(['1025', '1000000000', '9007199254740993'])(
    'a Content-Length of %s is refused before a byte of the body has come',
    async (length) => {
      await expectRefused(refused.tooLarge, [...JSON_TYPE, ['Content-Length', length]], '');
    },
  );

  it.each([[[FIVE]], [FIVE.split('')], [['{"quan', 'tity":5}']], [[FIVE, ' '.repeat(1010)]]])(
    'chunks up to 1 KiB are taken: %j',
    async (chunks) => {
      expect(await patch(1, CHUNKED, chunked(...chunks))).toEqual(updated('1', 5));
    },
  );

  it.each([
    ['one chunk', chunked(ofBytes(1025))],
    ['two chunks', chunked(FIVE, ' '.repeat(1011))],
    ['many chunks', chunked(...Array.from({ length: 200 }, () => ' '.repeat(10)))],
    ['chunks that are still coming', `1000\r\n${' '.repeat(1025)}`],
  ])('more than 1 KiB in %s is refused', async (_, body) => {
    await expectRefused(refused.tooLarge, CHUNKED, body);
  });

  it('does not count a trailer', async () => {
    const withTrailer = chunked(FIVE).replace(/\r\n$/, 'X-Trailer: x\r\n\r\n');
    expect(await patch(1, CHUNKED, withTrailer)).toEqual(updated('1', 5));
  });
});

describe('PATCH /v1/inventory/:petId, no body', () => {
  it.each<[string, HeaderLines, string?]>([
    ['no header', []],
    ['Content-Type alone', JSON_TYPE],
    ['Content-Length 0', [['Content-Length', '0']]],
    ['Content-Type and Content-Length 0', [...JSON_TYPE, ['Content-Length', '0']]],
    ['no chunk', CHUNKED, chunked()],
  ])('is refused: %s', async (_, headers, body) => {
    await expectRefused(refused.noBody, headers, body);
  });
});

describe('PATCH /v1/inventory/:petId, text of the body', () => {
  it.each([
    ['spaces', ' \t\r\n{ "quantity" :\n5 } \r\n'],
    ['an escaped name', '{"\\u0071uantity":5}'],
  ])('is taken: %s', async (_, body) => {
    expect(await patch(1, JSON_TYPE, body)).toEqual(updated('1', 5));
  });

  it.each<[string, string | Buffer, WholeAnswer]>([
    ['a byte order mark', `\ufeff${FIVE}`, refused.notJson],
    ['UTF-16', Buffer.from(FIVE, 'utf16le'), refused.notJson],
    ['an invalid byte in a name', Buffer.from('{"quantity\xff":5}', 'latin1'), refused.notUtf8],
    ['a surrogate in UTF-8', Buffer.from('{"\xed\xa0\x80":5}', 'latin1'), refused.notUtf8],
    ['NUL', '\0', refused.notJson],
    ['only spaces', '   ', refused.notJson],
    ['cut short', '{"quantity":5', refused.notJson],
    ['two objects', `${FIVE}${FIVE}`, refused.notJson],
    ['a trailing comma', '{"quantity":5,}', refused.notJson],
    ['a form', 'quantity=5', refused.notJson],
    ['null', 'null', refused.notObject],
    ['a number', '5', refused.notObject],
    ['an array', `[${FIVE}]`, refused.notObject],
    ['an array of arrays, 512 deep', `${'['.repeat(512)}${']'.repeat(512)}`, refused.notObject],
    ['opened 1024 times', '['.repeat(1024), refused.notJson],
    ['an object in an object, 170 deep', `${'{"a":'.repeat(170)}1${'}'.repeat(170)}`, refused.unknownMember('a')],
    ['quantity, 150 deep', `${'{"quantity":'.repeat(75)}1${'}'.repeat(75)}`, refused.quantity],
  ])('is refused: %s', async (_, body, expected) => {
    await expectRefused(expected, JSON_TYPE, body);
  });
});

describe('PATCH /v1/inventory/:petId, members of the body', () => {
  it.each([
    ['{}', refused.quantity],
    ['{"Quantity":5}', refused.unknownMember('Quantity')],
    ['{"quantity ":5}', refused.unknownMember('A member')],
    ['{"quantity":5,"status":"sold"}', refused.unknownMember('status')],
    ['{"x":1,"quantity":"5"}', refused.unknownMember('x')],
    ['{"quantity":5,"__proto__":{}}', refused.unknownMember('__proto__')],
    ['{"quantity":5,"constructor":{"prototype":{"x":1}}}', refused.unknownMember('constructor')],
    ['{"quantity":5,"prototype":{}}', refused.unknownMember('prototype')],
    ['{"quantity":5,"":1}', refused.unknownMember('A member')],
    ['{"quantity":5,"pet-id.$x":1}', refused.unknownMember('pet-id.$x')],
    [`{"quantity":5,"${'x'.repeat(32)}":1}`, refused.unknownMember('A member')], // as short as a key may be
    [`{${Array.from({ length: 100 }, (_, n) => `"m${n}":1`).join(',')}}`, refused.unknownMember('m0')],
    ['{"quantity":5,"quantity":6}', refused.repeated('quantity')],
    ['{"quantity":5,"qu\\u0061ntity":6}', refused.repeated('quantity')],
    ['{"quantity":5,"x":1,"x":2}', refused.repeated('x')],
    ['{"quantity":{"x":1,"x":2}}', refused.repeated('x')],
    ['{"quantity":[{"x":1},{"x":2}]}', refused.quantity],
    ['{"__proto__":1,"__proto__":2}', refused.repeated('__proto__')],
    ['{"quantity":"quantity","a":"quantity"}', refused.unknownMember('a')],
    ['{"a\\"b":1,"a\\"b":2}', refused.repeated('A member')],
    ['{"a\\\\":1,"a\\\\":2}', refused.repeated('A member')],
  ])('%s is refused', async (body, expected) => {
    await expectRefused(expected, JSON_TYPE, body);
  });

  it('a refused body leaves the members of every other object alone', () => {
    expect(Object.keys(Object.prototype)).toEqual([]);
    expect(({} as Record<string, unknown>)['quantity']).toBeUndefined();
  });
});
