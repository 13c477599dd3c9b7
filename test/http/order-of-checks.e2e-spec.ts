import { beforeAll, describe, expect, it } from 'vitest';
import { type WholeAnswer, refused, updated, whole } from '../support/answers.ts';
import { ask } from '../support/http-client.ts';
import { allowAt } from '../support/paths.ts';
import { type TestService, startService } from '../support/service.ts';
import { stockOf } from '../support/updates.ts';

const READ_ONLY_KEY = 'a-key-that-may-read-and-nothing-else-0001';

let service: TestService;
beforeAll(async () => {
  service = await startService();
  await service.stock([1, 7]);
  await service.addKey(READ_ONLY_KEY, { scopes: ['inventory:read'] });
});

class GoodUpdate {
  method = 'PATCH';
  target = '/v1/inventory/1';
  readonly headers = new Map([
    ['Host', 'one'],
    ['Authorization', `Bearer ${service.key}`],
    ['Content-Type', 'application/json'],
  ]);
  body = '{"quantity":7}';
}

/** Faults of a request in the order of the checks, each with its answer and a function that adds it. */
const FAULTS: [name: string, expected: WholeAnswer, add: (update: GoodUpdate) => unknown][] = [
  [
    'headers',
    refused.tooManyHeaders,
    ({ headers }) => Array.from({ length: 110 }, (_, n) => headers.set(`X-${n}`, '')),
  ],
  ['target length', refused.targetTooLong, (update) => (update.target += `?${'x'.repeat(2_100)}`)],
  ['Host', refused.noHost, ({ headers }) => headers.set('host', 'two')],
  ['route', refused.noRoute, (update) => (update.target = update.target.replace('inventory', 'Inventory'))],
  ['method', refused.method(allowAt('/v1/inventory/:petId')), (update) => (update.method = 'PUT')],
  ['key', refused.noKey, ({ headers }) => headers.delete('Authorization')],
  [
    'scope',
    refused.forbidden('inventory:write'),
    ({ headers }) => headers.set('Authorization', `Bearer ${READ_ONLY_KEY}`),
  ],
  ['petId', refused.petId, (update) => (update.target = '/v1/inventory/0x1')],
  ['form of If-Match', refused.ifMatch, ({ headers }) => headers.set('If-Match', 'available-7')],
  ['If-None-Match', refused.ifNoneMatch, ({ headers }) => headers.set('If-None-Match', '*')],
  ['Idempotency-Key', refused.idempotencyKey, ({ headers }) => headers.set('Idempotency-Key', 'a b')],
  ['Change-Reason', refused.changeReason, ({ headers }) => headers.set('Change-Reason', 'a b')],
  ['media type', refused.mediaType, ({ headers }) => headers.set('Content-Type', 'text/plain')],
  ['size', refused.tooLarge, (update) => (update.body = update.body.padEnd(2_000))],
  ['UTF-8', refused.notUtf8, (update) => (update.body += '\xff')],
  ['JSON', refused.notJson, (update) => (update.body += ',')],
  ['a member twice', refused.repeated('x'), (update) => (update.body = update.body.replace('{', '{"x":1,"x":2,'))],
  ['unknown member', refused.unknownMember('x'), (update) => (update.body = update.body.replace('{', '{"x":1,'))],
  ['quantity', refused.quantity('smaller'), (update) => (update.body = '{"quantity":-1}')],
  ['pet', refused.noPet, (update) => (update.target = '/v1/inventory/99')],
  ['If-Match', refused.precondition('"available-7"'), ({ headers }) => headers.set('If-Match', '"available-8"')],
];

/** The service may report any of these before a fault of the body, or after it. */
const BESIDE_THE_BODY = ['petId', 'form of If-Match', 'If-None-Match', 'Idempotency-Key', 'Change-Reason'];
const OF_THE_STOCK = ['pet', 'If-Match'];

function withFaults(isThere: (name: string, at: number) => boolean): GoodUpdate {
  const update = new GoodUpdate();
  for (const [, , add] of FAULTS.filter(([name], at) => isThere(name, at)).reverse()) add(update);
  return update;
}

async function send({ method, target, headers, body }: GoodUpdate): Promise<WholeAnswer> {
  return whole(await ask(service.port, { method, target, headers: [...headers], body: Buffer.from(body, 'latin1') }));
}

describe('PATCH /v1/inventory/:petId, order of the checks', () => {
  it('serves a request without a fault', async () => {
    expect(await send(new GoodUpdate())).toEqual(updated('1', 7));
  });

  it.each(FAULTS)('reports the first fault when several are present: %s', async (name, expected) => {
    const first = FAULTS.findIndex(([each]) => each === name);
    const isFree = BESIDE_THE_BODY.includes(name);
    const update = withFaults((each, at) => at === first || (isFree ? OF_THE_STOCK.includes(each) : at > first));
    expect(await send(update)).toEqual(expected);
  });

  it('reports one fault when the path, the headers and the body have one each', async () => {
    const faults = [...BESIDE_THE_BODY, 'media type'];
    const answers = FAULTS.filter(([name]) => faults.includes(name)).map(([, answer]) => answer);
    expect(answers).toContainEqual(await send(withFaults((name) => faults.includes(name))));
  });

  it('changes nothing when it refuses a request', async () => {
    for (const [name] of FAULTS) {
      const update = withFaults((each) => each === name);
      await send(Object.assign(update, { body: update.body.replace('7', '8') })); // 7 is there already
    }
    const row = { pet_id: '1', quantity: 7, status: 'available' };
    expect(await stockOf(service)).toEqual([row]);
  });
});
