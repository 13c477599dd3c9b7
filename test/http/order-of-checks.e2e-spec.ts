import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type WholeAnswer, refused, updated, whole } from '../support/answers.ts';
import { ask } from '../support/http-client.ts';
import { type TestService, startService } from '../support/service.ts';

/** What is wrong with a request, in the order in which it is looked for, and the answer that tells it. */
const FAULTS = [
  ['too many headers', refused.tooManyHeaders],
  ['target too long', refused.targetTooLong],
  ['two Hosts', refused.noHost],
  ['no such route', refused.noRoute],
  ['no such method', refused.method('OPTIONS, PATCH')],
  ['no key', refused.noKey],
  ['no scope', refused.forbidden('inventory:write')],
  ['bad petId', refused.petId],
  ['malformed If-Match', refused.ifMatch],
  ['bad Idempotency-Key', refused.idempotencyKey],
  ['wrong media type', refused.mediaType],
  ['body too large', refused.tooLarge],
  ['not UTF-8', refused.notUtf8],
  ['not JSON', refused.notJson],
  ['a member twice', refused.repeated('x')],
  ['an unknown member', refused.unknownMember('x')],
  ['bad quantity', refused.quantity],
  ['no such pet', refused.noPet],
  ['another If-Match', refused.precondition('"available-7"')],
] as const;

type Fault = (typeof FAULTS)[number][0];

const READ_ONLY_KEY = 'a-key-that-may-read-and-nothing-else-0001';

let service: TestService;
beforeAll(async () => {
  service = await startService();
  await service.stock([1, 7]);
  await service.addKey(READ_ONLY_KEY, { scopes: ['inventory:read'] });
});
afterAll(() => service.stop());

/** The answer to a good update, but for the faults. */
async function update(faults: readonly Fault[]): Promise<WholeAnswer> {
  const has = (fault: Fault) => faults.includes(fault);
  const path = has('no such route') ? '/v1/Inventory/' : '/v1/inventory/';
  const petId = has('bad petId') ? '0x1' : has('no such pet') ? '99' : '1';
  const query = has('target too long') ? `?${'x'.repeat(2_100)}` : '';

  const headers: [string, string][] = [
    ['Host', 'one'],
    ['Content-Type', has('wrong media type') ? 'text/plain' : 'application/json'],
  ];
  if (has('too many headers')) headers.push(...Array<[string, string]>(70).fill(['X', '']));
  if (has('two Hosts')) headers.push(['Host', 'two']);
  if (!has('no key')) headers.push(['Authorization', `Bearer ${has('no scope') ? READ_ONLY_KEY : service.key}`]);
  if (has('malformed If-Match')) headers.push(['If-Match', 'available-7']);
  else if (has('another If-Match')) headers.push(['If-Match', '"available-8"']);
  if (has('bad Idempotency-Key')) headers.push(['Idempotency-Key', 'a b']);

  const members = [`"quantity":${has('bad quantity') ? '-1' : '7'}`];
  if (has('an unknown member')) members.push('"x":1');
  if (has('a member twice')) members.push('"x":1,"x":2');
  const body = `{${members.join()}${has('not JSON') ? ',' : ''}}${has('not UTF-8') ? '\xff' : ''}`;

  const answer = await ask(service.port, {
    method: has('no such method') ? 'PUT' : 'PATCH',
    target: path + petId + query,
    headers,
    body: Buffer.from(has('body too large') ? body.padEnd(2_000) : body, 'latin1'),
  });
  return whole(answer);
}

describe('PATCH /v1/inventory/:petId, order of the checks', () => {
  it('serves a request without a fault', async () => {
    expect(await update([])).toEqual(updated('1', 7));
  });

  it.each(FAULTS)('tells of this fault where all later ones are there too: %s', async (fault, expected) => {
    const faults = FAULTS.map(([each]) => each);
    expect(await update(faults.slice(faults.indexOf(fault)))).toEqual(expected);
  });

  it('changes nothing by a refused request', async () => {
    const row = { pet_id: '1', quantity: 7, status: 'available' };
    expect(await service.sql('SELECT * FROM inventory_item')).toEqual([row]);
  });
});
