import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type WholeAnswer, listed, notModified, refused, updated, whole } from '../support/answers.ts';
import { type HeaderLines, ask } from '../support/http-client.ts';
import { type TestService, startService } from '../support/service.ts';

const LIST = '[{"petId":-3,"quantity":1,"status":"sold"},{"petId":1,"quantity":7,"status":"available"}]';

let service: TestService;
let other: TestService;
/** The list's tag in each coding, quotes included. */
const tags = { identity: '', gzip: '' };
const GZIP: HeaderLines = [['Accept-Encoding', 'gzip']];

beforeAll(async () => {
  service = await startService();
  other = await startService({ databaseUrl: service.databaseUrl, key: service.key });
  await service.stock([1, 7], [-3, 1, 'sold']);
  tags.identity = (await service.list()).headers['etag'] ?? '';
  tags.gzip = (await service.list(GZIP)).headers['etag'] ?? '';
});
afterAll(async () => {
  await other.stop();
  await service.stop();
});

const ifNoneMatch = (...fields: string[]) => fields.map((field) => ['If-None-Match', field] as const);

describe('GET /v1/inventory, ETag', () => {
  it('is strong, and another for each coding', () => {
    for (const tag of Object.values(tags)) expect(tag).toMatch(/^"[\w-]{20,}"$/);
    expect(tags.gzip).not.toBe(tags.identity);
  });

  it('is the same in every process and for every key', async () => {
    for (const headers of [[], GZIP]) {
      expect(whole(await other.list(headers))).toEqual(whole(await service.list(headers)));
    }
    const another = 'another-key-0123456789012345678901234567';
    await service.addKey(another);
    const headers = { Authorization: `Bearer ${another}` };
    expect(whole(await ask(service.port, { target: '/v1/inventory', headers }))).toEqual(listed(LIST, tags.identity));
  });

  it('is the old one again when the list has its old content again', async () => {
    await service.stock([1, 8]);
    expect((await service.list()).headers['etag']).not.toBe(tags.identity);
    await service.stock([1, 7]);
    expect(whole(await service.list())).toEqual(listed(LIST, tags.identity));
  });

  it('stands for the same bytes in every coding', async () => {
    const gzip = await service.list(GZIP);
    expect({ ...whole(gzip), body: gunzipSync(gzip.bytes).toString() }).toEqual(listed(LIST, tags.gzip, 'gzip'));
  });
});

describe('GET /v1/inventory, Accept-Encoding', () => {
  async function expectCoding(coding: 'identity' | 'gzip', accepted: string): Promise<void> {
    const { status, headers } = await service.list([['Accept-Encoding', accepted]]);
    expect([status, headers['content-encoding'] ?? 'identity', headers['etag']]).toEqual([200, coding, tags[coding]]);
  }

  it.each(['gzip', 'GZIP', '*', 'br, gzip', 'gzip, deflate, br, zstd', 'gzip;q=0.001, br', 'gzip,'.repeat(500)])(
    '"%s" is answered in gzip',
    (accepted) => expectCoding('gzip', accepted),
  );

  it.each(['', 'identity', 'br', 'gzip;q=0', 'gzip;q=0, *', 'gzip;q=0.5, identity;q=0.6', '*;q=0', 'gzip;q=x', ',,,'])(
    '"%s" is answered as it is',
    (accepted) => expectCoding('identity', accepted),
  );
});

describe('GET /v1/inventory, If-None-Match', () => {
  it.each<[string, () => string[]]>([
    ['the tag in gzip', () => [tags.gzip]],
    ['the tag, weak', () => [`W/${tags.identity}`]],
    ['*', () => ['*']],
    ['a list with the tag', () => [`"x,y", ${tags.identity}, "z"`]],
    ['several lines', () => ['"x"', tags.identity]],
  ])('with %s is answered 304', async (_, fields) => {
    expect(whole(await service.list(ifNoneMatch(...fields())))).toEqual(notModified(tags.identity));
  });

  it('is answered 304 with the tag in gzip when that is accepted', async () => {
    for (const tag of Object.values(tags)) {
      expect(whole(await service.list([...GZIP, ...ifNoneMatch(tag)]))).toEqual(notModified(tags.gzip));
    }
  });

  it('is answered 304 to HEAD', async () => {
    const headers = { Authorization: `Bearer ${service.key}`, 'If-None-Match': tags.identity };
    const answer = await ask(service.port, { method: 'HEAD', target: '/v1/inventory', headers });
    expect(whole(answer)).toEqual(notModified(tags.identity));
  });

  it.each([
    ['nothing', () => ''],
    ['another tag', () => '"x"'],
    ['part of the tag', () => `${tags.identity.slice(0, -2)}"`],
    ['the tag in another case', () => tags.identity.toLowerCase()],
    ['a coding there is not', () => tags.identity.replace(/"$/, '-zstd"')],
    ['"*"', () => '"*"'],
    ['the tag in what is no list of tags', () => `abc, ${tags.identity}`],
  ])('with %s is answered with the list', async (_, field) => {
    expect(whole(await service.list(ifNoneMatch(field())))).toEqual(listed(LIST, tags.identity));
  });

  it('comes after the key', async () => {
    const answer = await ask(service.port, { target: '/v1/inventory', headers: { 'If-None-Match': '*' } });
    expect(whole(answer)).toEqual(refused.noKey);
  });

  it('is answered with the list after a change, in every process', async () => {
    await service.stock([9, 1]);
    for (const each of [service, other]) expect((await each.list(ifNoneMatch(tags.identity))).status).toBe(200);
    await service.sql('DELETE FROM inventory_item WHERE pet_id = 9');
  });
});

describe('PATCH /v1/inventory/:petId, If-Match', () => {
  async function setQuantity(petId: number, quantity: number, ifMatch: readonly string[]) {
    const headers = ifMatch.map((field) => ['If-Match', field] as const);
    return whole(await service.update(petId, quantity, headers));
  }

  async function expectUnchanged(ifMatch: string, expected: WholeAnswer): Promise<void> {
    await service.stock([51, 5, 'pending']);
    const before = await service.sql('SELECT * FROM stock_change');
    expect(await setQuantity(51, 6, [ifMatch])).toEqual(expected);
    expect(await service.sql('SELECT quantity FROM inventory_item WHERE pet_id = 51')).toEqual([{ quantity: 5 }]);
    expect(await service.sql('SELECT * FROM stock_change')).toEqual(before);
  }

  it.each([
    ['"pending-5"'],
    ['*'],
    ['"available-5","pending-5", "pending-6"'],
    ['"x"', '"pending-5"'],
    ['W/"pending-5", "pending-5"'],
  ])('holds: %s %s', async (...fields) => {
    await service.stock([50, 5, 'pending']);
    expect(await setQuantity(50, 6, fields)).toEqual(updated('50', 6, 'pending'));
  });

  it.each(['"pending-6"', '"available-5"', '"PENDING-5"', 'W/"pending-5"', '"*"', '"{pending-5}"', '"pending-5\xe4"'])(
    'does not hold: %s',
    (field) => expectUnchanged(field, refused.precondition('"pending-5"')),
  );

  it.each(['pending-5', '"pending-5", pending-6', '', ', ,', `"a"${', '.repeat(3_500)}x`])(
    'is refused as no list of entity tags: "%.30s"',
    (field) => expectUnchanged(field, refused.ifMatch),
  );

  it.each(['*', '"available-5"', 'W/"x"'])('%s does not make a pet that is not there', async (field) => {
    expect(await setQuantity(99, 6, [field])).toEqual(refused.noPet);
  });

  it('lets one of many through', async () => {
    await service.stock([52, 0]);
    const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => setQuantity(52, n + 1, ['"available-0"'])));
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array<number>(19).fill(412)]);
  });
});
