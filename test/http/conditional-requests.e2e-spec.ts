import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { listed, notModified, refused, updated, whole } from '../support/answers.ts';
import { type HeaderLines, ask } from '../support/http-client.ts';
import { type TestService, startService } from '../support/service.ts';

const LIST = '[{"petId":-3,"quantity":1,"status":"sold"},{"petId":1,"quantity":7,"status":"available"}]';

let service: TestService;
let other: TestService;
/** The list's tag in each coding, quotes included. */
const tags = { identity: '', gzip: '' };

beforeAll(async () => {
  service = await startService();
  other = await startService({ databaseUrl: service.databaseUrl, key: service.key });
  await service.stock([1, 7], [-3, 1, 'sold']);
  for (const coding of ['identity', 'gzip'] as const) {
    tags[coding] = (await list([['Accept-Encoding', coding]])).headers['etag'] ?? '';
  }
});
afterAll(async () => {
  await other.stop();
  await service.stop();
});

const list = (headers: HeaderLines = [], from = service) => from.list(headers);
const ifNoneMatch = (...fields: string[]) => fields.map((field) => ['If-None-Match', field] as const);

describe('GET /v1/inventory, ETag', () => {
  it('has a strong tag for each coding', () => {
    for (const tag of Object.values(tags)) expect(tag).toMatch(/^"[\w-]{20,}"$/);
    expect(new Set(Object.values(tags)).size).toBe(2);
  });

  it('has the same tags in every process and for every key', async () => {
    for (const coding of ['identity', 'gzip'] as const) {
      const headers: HeaderLines = [['Accept-Encoding', coding]];
      expect(whole(await list(headers, other))).toEqual(whole(await list(headers)));
    }
    const another = 'another-key-0123456789012345678901234567';
    await service.addKey(another);
    const headers: HeaderLines = [['Authorization', `Bearer ${another}`]];
    expect(whole(await ask(service.port, { target: '/v1/inventory', headers }))).toEqual(listed(LIST, tags.identity));
  });

  it('has its old tag again when it has its old content again', async () => {
    await service.stock([1, 8]);
    expect((await list()).headers['etag']).not.toBe(tags.identity);
    await service.stock([1, 7]);
    expect(whole(await list())).toEqual(listed(LIST, tags.identity));
  });

  it('is the same bytes in every coding', async () => {
    const gzip = await list([['Accept-Encoding', 'gzip']]);
    expect({ ...whole(gzip), body: gunzipSync(gzip.bytes).toString() }).toEqual(listed(LIST, tags.gzip, 'gzip'));
  });
});

describe('GET /v1/inventory, Accept-Encoding', () => {
  it.each<[string, keyof typeof tags]>([
    ['', 'identity'],
    ['identity', 'identity'],
    ['gzip', 'gzip'],
    ['GZIP', 'gzip'],
    ['*', 'gzip'],
    ['br', 'identity'],
    ['br, gzip', 'gzip'],
    ['gzip, deflate, br, zstd', 'gzip'],
    ['gzip;q=0.001, br', 'gzip'],
    ['gzip;q=0', 'identity'],
    ['gzip;q=0, *', 'identity'],
    ['identity, gzip;q=0.5', 'identity'],
    ['gzip;q=0.5, identity;q=0.6', 'identity'],
    ['*;q=0', 'identity'],
    ['identity;q=0', 'identity'],
    ['zstd', 'identity'],
    ['gzip;q=x', 'identity'],
    [',,,', 'identity'],
    ['gzip,'.repeat(500), 'gzip'],
  ])('"%s" is answered in %s', async (accepted, coding) => {
    const { status, headers } = await list([['Accept-Encoding', accepted]]);
    expect([status, headers['content-encoding'] ?? 'identity', headers['etag']]).toEqual([200, coding, tags[coding]]);
  });
});

describe('GET /v1/inventory, If-None-Match', () => {
  const known: (readonly [string, () => string])[] = [
    ['the tag in gzip', () => tags.gzip],
    ['the tag, weak', () => `W/${tags.identity}`],
    ['*', () => '*'],
    ['a list with the tag', () => `"x", ${tags.identity}, "y"`],
    ['a list with empty elements', () => `, ,${tags.identity},`],
    ['a tag with a comma before it', () => `"x,y", ${tags.identity}`],
  ];

  it.each(known)('with %s is answered 304', async (_, field) => {
    expect(whole(await list(ifNoneMatch(field())))).toEqual(notModified(tags.identity));
  });

  it('is answered 304 with the tag in gzip when that is accepted', async () => {
    for (const tag of Object.values(tags)) {
      expect(whole(await list([['Accept-Encoding', 'gzip'], ...ifNoneMatch(tag)]))).toEqual(notModified(tags.gzip));
    }
  });

  it('may come in several lines', async () => {
    expect(whole(await list(ifNoneMatch('"x"', tags.identity)))).toEqual(notModified(tags.identity));
  });

  it('is answered 304 to HEAD', async () => {
    const headers: HeaderLines = [['Authorization', `Bearer ${service.key}`], ...ifNoneMatch(tags.identity)];
    const answer = await ask(service.port, { method: 'HEAD', target: '/v1/inventory', headers });
    expect(whole(answer)).toEqual(notModified(tags.identity));
  });

  const unknown: (readonly [string, () => string])[] = [
    ['nothing', () => ''],
    ['another tag', () => '"x"'],
    ['the tag without quotes', () => tags.identity.slice(1, -1)],
    ['part of the tag', () => `${tags.identity.slice(0, -2)}"`],
    ['the tag in another case', () => tags.identity.toLowerCase()],
    ['a coding there is not', () => tags.identity.replace(/"$/, '-zstd"')],
    ['"*"', () => '"*"'],
    ['quotes', () => '"'.repeat(1_000)],
    ['the tag in what is no list of tags', () => `abc, ${tags.identity}`],
  ];
  it.each(unknown)('with %s is answered with the list', async (_, field) => {
    expect(whole(await list(ifNoneMatch(field())))).toEqual(listed(LIST, tags.identity));
  });

  it('comes after the key', async () => {
    const answer = await ask(service.port, { target: '/v1/inventory', headers: ifNoneMatch('*') });
    expect(whole(answer)).toEqual(refused.noKey);
  });

  it('is answered with the list after a change, in every process', async () => {
    await service.stock([9, 1]);
    for (const each of [service, other]) {
      expect((await list(ifNoneMatch(tags.identity), each)).status).toBe(200);
    }
    await service.sql('DELETE FROM inventory_item WHERE pet_id = 9');
  });
});

describe('PATCH /v1/inventory/:petId, If-Match', () => {
  async function setQuantity(petId: number, quantity: number, ifMatch: readonly string[]) {
    const headers = ifMatch.map((field) => ['If-Match', field] as const);
    return whole(await service.update(petId, quantity, headers));
  }

  it.each([
    [],
    ['"pending-5"'],
    ['*'],
    ['"available-5", "pending-5"'],
    ['"pending-5","pending-6"'],
    ['"x"', '"pending-5"'],
    ['W/"pending-5", "pending-5"'],
    [', "pending-5",'],
  ])('holds: %j %s', async (...fields) => {
    await service.stock([50, 5, 'pending']);
    expect(await setQuantity(50, 6, fields)).toEqual(updated('50', 6, 'pending'));
  });

  it.each([
    ['"pending-6"'],
    ['"available-5"'],
    ['"pending-05"'],
    ['"PENDING-5"'],
    ['W/"pending-5"'],
    ['"*"'],
    ['""'],
    ['"pending-%"'],
    ['"{pending-5}"'],
    ['"pending-5\xe4"'],
  ])('does not hold: %s', async (field) => {
    await service.stock([51, 5, 'pending']);
    const before = await service.sql('SELECT * FROM stock_change');
    expect(await setQuantity(51, 6, [field])).toEqual(refused.precondition('"pending-5"'));
    expect(await service.sql('SELECT quantity FROM inventory_item WHERE pet_id = 51')).toEqual([{ quantity: 5 }]);
    expect(await service.sql('SELECT * FROM stock_change')).toEqual(before);
  });

  it.each([
    ['without quotes', 'pending-5'],
    ['a good one and one without quotes', '"pending-5", pending-6'],
    ['nothing', ''],
    ['commas alone', ', ,'],
    ['a long one that ends badly', `"a"${', '.repeat(3_500)}x`],
  ])('that is no list of entity tags is 400: %s', async (_what, field) => {
    await service.stock([51, 5, 'pending']);
    const before = await service.sql('SELECT * FROM stock_change');
    expect(await setQuantity(51, 6, [field])).toEqual(refused.ifMatch);
    expect(await service.sql('SELECT * FROM stock_change')).toEqual(before);
  });

  it.each(['*', '"available-5"', 'W/"x"'])('%s does not make a pet that is not there', async (field) => {
    expect(await setQuantity(99, 6, [field])).toEqual(refused.noPet);
  });

  it('lets one of many through', async () => {
    await service.stock([52, 0]);
    const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => setQuantity(52, n + 1, ['"available-0"'])));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array<number>(19).fill(412)]);
  });
});
