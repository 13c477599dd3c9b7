import { gunzipSync } from 'node:zlib';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { listBytes } from '../http/raw-requests.ts';
import { listed, notModified, refused, whole } from '../support/answers.ts';
import { Connection, type HeaderLines, ask } from '../support/http-client.ts';
import { type TestService, startService } from '../support/service.ts';
import { listText } from '../support/stock.ts';

const LIST = listText([-3, 1, 'sold'], [1, 7]);
const GZIP: HeaderLines = [['Accept-Encoding', 'gzip']];

describe('the list', () => {
  let service: TestService;
  /** Two other processes, with each service. */
  let others: readonly TestService[];
  /** The list's entity tag in each coding, with quotes. */
  const tags = { identity: '', gzip: '' };

  beforeAll(async () => {
    service = await startService();
    const { databaseUrl, key } = service;
    others = [
      await startService({ databaseUrl, key, settings: { FAST: 'on' } }),
      await startService({ databaseUrl, key, settings: { FAST: 'off' } }),
    ];
    await restock();
    tags.identity = (await service.list()).headers['etag'] ?? '';
    tags.gzip = (await service.list(GZIP)).headers['etag'] ?? '';
  });

  /** Removes what another test has left. */
  async function restock(): Promise<void> {
    await service.sql('DELETE FROM inventory_item WHERE pet_id NOT IN (-3, 1)');
    await service.stock([1, 7], [-3, 1, 'sold']);
  }
  beforeEach(restock);

  const each = (name: string, fields: string[]) => fields.map((field) => [name, field] as const);
  const ifMatch = (...fields: string[]) => each('If-Match', fields);
  const ifNoneMatch = (...fields: string[]) => each('If-None-Match', fields);
  const request = async (headers: Record<string, string>, method = 'GET') =>
    whole(await ask(service.port, { method, target: '/v1/inventory', headers }));

  describe('GET /v1/inventory, ETag', () => {
    it('is strong, and differs between the codings', () => {
      for (const tag of Object.values(tags)) expect(tag).toMatch(/^"[\w-]{20,}"$/);
      expect(tags.gzip).not.toBe(tags.identity);
    });

    it('is the same in every process and with every key', async () => {
      for (const headers of [[], GZIP])
        for (const other of others)
          expect(whole(await other.list(headers))).toEqual(whole(await service.list(headers)));
      const another = 'another-key-0123456789012345678901234567';
      await service.addKey(another);
      expect(await request({ Authorization: `Bearer ${another}` })).toEqual(listed(LIST, tags.identity));
    });

    it('has its old value again when the list has its old content again', async () => {
      await service.stock([1, 8]);
      expect((await service.list()).headers['etag']).not.toBe(tags.identity);
      await service.stock([1, 7]);
      expect(whole(await service.list())).toEqual(listed(LIST, tags.identity));
    });

    it('identifies the same content in both codings', async () => {
      const gzip = await service.list(GZIP);
      expect({ ...whole(gzip), body: gunzipSync(gzip.bytes).toString() }).toEqual(listed(LIST, tags.gzip, 'gzip'));
    });
  });

  describe('GET /v1/inventory, Accept-Encoding', () => {
    async function expectCoding(coding: 'identity' | 'gzip', accepted: string): Promise<void> {
      const { status, headers } = await service.list([['Accept-Encoding', accepted]]);
      expect([status, headers['content-encoding'] ?? 'identity', headers['etag']]).toEqual([200, coding, tags[coding]]);
    }

    it.each(['GZIP', '*', 'gzip;q=0.001, br', 'gzip,'.repeat(500)])('compresses the list for "%.20s"', (accepted) =>
      expectCoding('gzip', accepted),
    );

    it.each(['', 'br', 'gzip;q=0, *', 'gzip;q=0.5, identity;q=0.6', 'gzip;q=x', ',,,'])(
      'does not compress the list for "%s"',
      (accepted) => expectCoding('identity', accepted),
    );
  });

  describe('GET /v1/inventory, If-None-Match', () => {
    it('gets 304 again and again on one connection', async () => {
      const conditional = listBytes(service.key).replace('\r\n\r\n', `\r\nIf-None-Match: ${tags.identity}\r\n\r\n`);
      const connection = await Connection.open(service.port);
      for (let n = 0; n < 3; n++)
        expect(whole(await connection.send(conditional).answer())).toEqual(notModified(tags.identity));
    });

    it.each<[string, () => string[]]>([
      ['the tag of the compressed list', () => [tags.gzip]],
      ['the tag as a weak one', () => [`W/${tags.identity}`]],
      ['*', () => ['*']],
      ['several lines', () => ['"x"', tags.identity]],
    ])('gives 304 for %s', async (_, fields) => {
      expect(whole(await service.list(ifNoneMatch(...fields())))).toEqual(notModified(tags.identity));
    });

    it('gives 304 with the tag of the compressed list when the client accepts gzip', async () => {
      for (const tag of Object.values(tags)) {
        expect(whole(await service.list([...GZIP, ...ifNoneMatch(tag)]))).toEqual(notModified(tags.gzip));
      }
    });

    it('gives 304 with the tag of the list as it is when the client accepts no coding', async () => {
      const headers: HeaderLines = [['Accept-Encoding', '*;q=0'], ...ifNoneMatch(tags.gzip)];
      expect(whole(await service.list(headers))).toEqual(notModified(tags.identity));
    });

    it('gives 304 for HEAD', async () => {
      const headers = { Authorization: `Bearer ${service.key}`, 'If-None-Match': tags.identity };
      expect(await request(headers, 'HEAD')).toEqual(notModified(tags.identity));
    });

    it.each([
      ['an empty value', () => ''],
      ['the tag of an unknown coding', () => tags.identity.replace(/"$/, '-zstd"')],
      ['"*"', () => '"*"'],
      ['the tag in a malformed list', () => `abc, ${tags.identity}`],
    ])('gives the list for %s', async (_, field) => {
      expect(whole(await service.list(ifNoneMatch(field())))).toEqual(listed(LIST, tags.identity));
    });

    it('does not replace the key', async () => {
      expect(await request({ 'If-None-Match': '*' })).toEqual(refused.noKey);
    });

    it('gives the list after a change, in every process', async () => {
      await service.stock([9, 1]);
      for (const each of [service, ...others]) expect((await each.list(ifNoneMatch(tags.identity))).status).toBe(200);
    });
  });

  describe('GET /v1/inventory, If-Match', () => {
    it.each<[string, () => string[]]>([
      ['the tag of the list', () => [tags.identity]],
      ['the tag of the compressed list', () => [tags.gzip]],
      ['*', () => ['*']],
      ['a list with the tag', () => [`"x,y", W/${tags.identity}, ${tags.identity}`]],
      ['several lines', () => ['"x"', tags.identity]],
    ])('gives the list for %s', async (_, fields) => {
      expect(whole(await service.list(ifMatch(...fields())))).toEqual(listed(LIST, tags.identity));
    });

    it.each([
      ['the tag of an item', () => '"available-7"'],
      ['the tag as a weak one', () => `W/${tags.identity}`],
      ['the tag of an unknown coding', () => tags.identity.replace(/"$/, '-br"')],
      ['"*"', () => '"*"'],
    ])('is 412 with the present tag for %s', async (_, field) => {
      expect(whole(await service.list(ifMatch(field())))).toEqual(refused.precondition(tags.identity));
      const answer = await service.list([...GZIP, ...ifMatch(field())]);
      expect(whole(answer)).toEqual(refused.precondition(tags.gzip));
    });

    it('is 412 after a change, in every process', async () => {
      await service.stock([9, 1]);
      const { headers } = await service.list();
      const expected = refused.precondition(headers['etag'] ?? '');
      for (const one of [service, ...others]) expect(whole(await one.list(ifMatch(tags.identity)))).toEqual(expected);
    });

    it.each(['', 'abc', '*, "x"'])('is 400 if it is malformed: "%s"', async (field) => {
      expect(whole(await service.list(ifMatch(field)))).toEqual(refused.ifMatch);
    });

    it('comes before If-None-Match', async () => {
      const both = (expected: string) => service.list([...ifNoneMatch(tags.identity), ...ifMatch(expected)]);
      expect(whole(await both(tags.identity))).toEqual(notModified(tags.identity));
      expect(whole(await both('"x"'))).toEqual(refused.precondition(tags.identity));
    });

    it('is checked for HEAD, after the key', async () => {
      const authorized = { Authorization: `Bearer ${service.key}` };
      const expected = { ...refused.precondition(tags.identity), body: '' };
      expect(await request({ ...authorized, 'If-Match': '"x"' }, 'HEAD')).toEqual(expected);
      expect(await request({ 'If-Match': '"x"' })).toEqual(refused.noKey);
    });
  });

  describe('GET /v1/inventory', () => {
    it.each([
      ['If-Modified-Since', 'Fri, 31 Dec 9999 23:59:59 GMT'],
      ['If-Unmodified-Since', 'Thu, 01 Jan 1970 00:00:00 GMT'],
      ['If-Range', '"x"'],
    ])('ignores %s', async (name, field) => {
      expect(whole(await service.list([[name, field]]))).toEqual(listed(LIST, tags.identity));
    });
  });
});
