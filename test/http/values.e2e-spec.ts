import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type WholeAnswer, refused, updated, whole } from '../support/answers.ts';
import { type TestService, startService } from '../support/service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService();
  await service.stock([70, 7, 'sold']);
});
afterAll(() => service.stop());

const setQuantity = async (petId: string, body: number | string) => whole(await service.update(petId, body));

async function expectRefused(expected: WholeAnswer, petId: string, body: number | string): Promise<void> {
  const changes = () => service.sql('SELECT * FROM stock_change ORDER BY id');
  const before = await changes();
  expect(await setQuantity(petId, body)).toEqual(expected);
  expect(await changes()).toEqual(before);
}

describe('PATCH /v1/inventory/:petId, petId', () => {
  it.each(['0', '-1', '9007199254740993', '9223372036854775807', '-9223372036854775808'])(
    'keeps every digit of %s, in and out',
    async (petId) => {
      await service.stock([petId, 1, 'pending']);
      expect(await setQuantity(petId, 2)).toEqual(updated(petId, 2, 'pending'));
      const rows = await service.sql('SELECT quantity FROM inventory_item WHERE pet_id = $1', [petId]);
      expect(rows).toEqual([{ quantity: 2 }]);
    },
  );

  it.each(['2', '-2', '9007199254740994', '9223372036854775805', '-9223372036854775806'])(
    'finds no pet %s beside one that a double cannot tell from it',
    async (petId) => {
      expect(await setQuantity(petId, 2)).toEqual(refused.noPet);
    },
  );

  const refusesPetId = (petId: string) => expectRefused(refused.petId, petId, 2);

  it.each(['abc', '1.0', '1e3', '0x1', '+1', '01', '-01', '-0', '-', 'null', '1;x=1', '*', "1'", '.'])(
    'refuses %s: it is no canonical decimal',
    refusesPetId,
  );

  it.each(['%201', '%31', '1%00', '%FF', '%', '%D9%A1', '1%2F2', '%2e%2e'])(
    'refuses %s as it stands, whatever it encodes',
    refusesPetId,
  );

  it.each(['9223372036854775808', '-9223372036854775809', '18446744073709551617', '9'.repeat(500)])(
    'refuses %s: 64 bits do not hold it',
    refusesPetId,
  );
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
    expect(await setQuantity('70', `{"quantity":${json}}`)).toEqual(updated('70', quantity, 'sold'));
  });

  const refusesQuantity = (json: string) => expectRefused(refused.quantity, '70', `{"quantity":${json}}`);

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
    expectRefused(refused.notJson, '70', `{"quantity":${json}}`),
  );
});

describe('PATCH /v1/inventory/:petId, status', () => {
  it.each(['available', 'pending', 'sold'] as const)('stays %s when a quantity is set, 0 included', async (status) => {
    await service.stock([80, 5, status]);
    expect(await setQuantity('80', 0)).toEqual(updated('80', 0, status));
    expect(await setQuantity('80', 9)).toEqual(updated('80', 9, status));
  });
});
