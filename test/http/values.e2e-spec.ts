import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { refused, updated, whole } from '../support/answers.ts';
import { type TestService, startService } from '../support/service.ts';

let service: TestService;
beforeAll(async () => {
  service = await startService();
});
afterAll(() => service.stop());

const setQuantity = async (petId: string, body: string) => whole(await service.update(petId, body));

async function changes(): Promise<unknown[]> {
  return service.sql('SELECT * FROM stock_change ORDER BY pet_id, id');
}

describe('PATCH /v1/inventory/:petId, petId', () => {
  it.each(['0', '1', '-1', '9007199254740993', '-9007199254740993', '9223372036854775807', '-9223372036854775808'])(
    '%s keeps every digit, in and out',
    async (petId) => {
      await service.stock([petId, 1, 'pending']);
      expect(await setQuantity(petId, '{"quantity":2}')).toEqual(updated(petId, 2, 'pending'));
      const [row] = await service.sql('SELECT quantity FROM inventory_item WHERE pet_id = $1', [petId]);
      expect(row).toEqual({ quantity: 2 });
    },
  );

  it.each(['2', '-2', '9007199254740994', '9223372036854775805', '-9223372036854775806'])(
    '%s is not found where there is no such pet',
    async (petId) => {
      expect(await setQuantity(petId, '{"quantity":2}')).toEqual(refused.noPet);
    },
  );

  it.each([
    'abc',
    '1.0',
    '1e3',
    '0x1',
    '+1',
    '01',
    '-01',
    '-0',
    '-',
    'NaN',
    'null',
    '1;x=1',
    '*',
    "1'",
    '%201',
    '%31',
    '1%00',
    '%FF',
    '%',
    '%D9%A1', // an Arabic-Indic one
    '1%2F2',
    '%2e%2e',
    '.',
    '9223372036854775808',
    '-9223372036854775809',
    '18446744073709551617', // 1 modulo 2^64
    '100000000000000000000',
    '9'.repeat(500),
  ])('%s is refused before any SQL', async (petId) => {
    const before = await changes();
    expect(await setQuantity(petId, '{"quantity":2}')).toEqual(refused.petId);
    expect(await changes()).toEqual(before);
  });
});

describe('PATCH /v1/inventory/:petId, quantity', () => {
  beforeAll(() => service.stock([70, 7, 'sold'], [71, 7]));

  it.each([
    ['0', 0],
    ['1', 1],
    ['5.0', 5],
    ['1e2', 100],
    ['1E2', 100],
    ['50e-1', 5],
    ['0.5e1', 5],
    ['-0', 0],
    ['0e400', 0],
    ['2147483647', 2147483647],
    ['2.147483647e9', 2147483647],
    ['5.00000000000000000001', 5], // what JSON.parse rounds to an integer is that integer
    ['0.9999999999999999999999', 1],
    ['1e-400', 0],
  ])('%s is %i', async (json, quantity) => {
    expect(await setQuantity('70', `{"quantity":${json}}`)).toEqual(updated('70', quantity, 'sold'));
  });

  it.each([
    ['-1', refused.quantity],
    ['-2147483648', refused.quantity],
    ['2147483648', refused.quantity],
    ['4294967301', refused.quantity], // 5 modulo 2^32
    ['1e10', refused.quantity],
    ['9223372036854775807', refused.quantity],
    ['18446744073709551621', refused.quantity], // 5 modulo 2^64
    ['1.5', refused.quantity],
    ['-0.1', refused.quantity],
    ['5e-324', refused.quantity],
    ['1e400', refused.quantity], // a double makes it infinite
    ['"5"', refused.quantity],
    ['"0x5"', refused.quantity],
    ['true', refused.quantity],
    ['null', refused.quantity],
    ['[5]', refused.quantity],
    ['{}', refused.quantity],
    ['{"valueOf":5}', refused.quantity],
    ['05', refused.notJson],
    ['+5', refused.notJson],
    ['5.', refused.notJson],
    ['NaN', refused.notJson],
    ['', refused.notJson],
    ["'5'", refused.notJson],
    ['5 5', refused.notJson],
  ])('%s is refused', async (json, expected) => {
    const before = await changes();
    expect(await setQuantity('71', `{"quantity":${json}}`)).toEqual(expected);
    expect(await changes()).toEqual(before);
  });
});

describe('PATCH /v1/inventory/:petId, status', () => {
  it.each(['available', 'pending', 'sold'] as const)('%s stays when a quantity is set, 0 included', async (status) => {
    await service.stock([80, 5, status]);
    expect(await setQuantity('80', '{"quantity":0}')).toEqual(updated('80', 0, status));
    expect(await setQuantity('80', '{"quantity":9}')).toEqual(updated('80', 9, status));
  });
});
