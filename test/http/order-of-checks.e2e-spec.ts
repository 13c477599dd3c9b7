import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type WholeAnswer, refused, updated, whole } from '../support/answers.ts';
import { ask } from '../support/http-client.ts';
import { type TestService, startService } from '../support/service.ts';

/** What is wrong with a request, in the order in which it is looked for, and the answer that tells it. */
const FAULTS = [
  ['too many headers', 'headers', refused.tooManyHeaders],
  ['the target is too long', 'targetLength', refused.targetTooLong],
  ['no Host', 'host', refused.noHost],
  ['no such route', 'route', refused.noRoute],
  ['no such method', 'method', refused.method('OPTIONS, PATCH')],
  ['no key', 'key', refused.noKey],
  ['no scope', 'scope', refused.forbidden('inventory:write')],
  ['petId', 'petId', refused.petId],
  ['If-Match is malformed', 'ifMatchForm', refused.ifMatch],
  ['Idempotency-Key', 'idempotencyKey', refused.idempotencyKey],
  ['media type', 'mediaType', refused.mediaType],
  ['size', 'size', refused.tooLarge],
  ['not UTF-8', 'utf8', refused.notUtf8],
  ['not JSON', 'json', refused.notJson],
  ['a member twice', 'twice', refused.repeated('x')],
  ['an unknown member', 'unknown', refused.unknownMember('x')],
  ['quantity', 'quantity', refused.quantity],
  ['no such pet', 'pet', refused.noPet],
  ['If-Match', 'ifMatch', refused.precondition('"available-7"')],
] as const satisfies readonly (readonly [string, string, WholeAnswer])[];

type Fault = (typeof FAULTS)[number][1];

const READ_ONLY_KEY = 'a-key-that-may-read-and-nothing-else-0001';

let service: TestService;
beforeAll(async () => {
  service = await startService();
  await service.stock([1, 7]);
  await service.addKey(READ_ONLY_KEY, { scopes: ['inventory:read'] });
});
afterAll(() => service.stop());

/** A good update, but for the faults. */
async function update(...faults: readonly Fault[]): Promise<WholeAnswer> {
  const has = (fault: Fault) => faults.includes(fault);
  const path = has('route') ? '/v1/Inventory/' : '/v1/inventory/';
  const petId = has('petId') ? '0x1' : has('pet') ? '99' : '1';
  const key = has('scope') ? READ_ONLY_KEY : service.key;
  const headers: (readonly [string, string])[] = [];
  if (!has('host')) headers.push(['Host', 'inventory.test']);
  else headers.push(['Host', 'one'], ['Host', 'two']);
  if (!has('key')) headers.push(['Authorization', `Bearer ${key}`]);
  if (has('headers')) headers.push(...Array.from({ length: 70 }, (_, n) => [`X-${n}`, ''] as const));
  if (has('idempotencyKey')) headers.push(['Idempotency-Key', 'a b']);
  if (has('ifMatchForm')) headers.push(['If-Match', 'available-7']);
  else if (has('ifMatch')) headers.push(['If-Match', '"available-8"']);
  headers.push(['Content-Type', has('mediaType') ? 'text/plain' : 'application/json']);
  const answer = await ask(service.port, {
    method: has('method') ? 'PUT' : 'PATCH',
    target: path + petId + (has('targetLength') ? `?${'x'.repeat(2_100)}` : ''),
    headers,
    body: Buffer.from(bodyWith(has), 'latin1'),
  });
  return whole(answer);
}

function bodyWith(has: (fault: Fault) => boolean): string {
  const members = [`"quantity":${has('quantity') ? '-1' : '7'}`];
  if (has('unknown')) members.push('"x":1');
  if (has('twice')) members.push('"x":1,"x":2');
  const text = `{${members.join()}${has('json') ? ',' : ''}}${has('utf8') ? '\xff' : ''}`;
  return has('size') ? text.padEnd(2_000) : text;
}

describe('PATCH /v1/inventory/:petId, order of the checks', () => {
  it('serves a request without a fault', async () => {
    expect(await update()).toEqual(updated('1', 7));
  });

  it.each(FAULTS)('tells of the one fault of a request: %s', async (_, fault, expected) => {
    expect(await update(fault)).toEqual(expected);
  });

  it.each(FAULTS)('tells of this fault where all later ones are there too: %s', async (name, _fault, expected) => {
    const from = FAULTS.findIndex(([each]) => each === name);
    expect(await update(...FAULTS.slice(from).map(([, fault]) => fault))).toEqual(expected);
  });

  it('changes nothing by a refused request', async () => {
    expect(await service.sql('SELECT * FROM inventory_item')).toEqual([
      { pet_id: '1', quantity: 7, status: 'available' },
    ]);
  });
});
