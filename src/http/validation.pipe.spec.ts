import { expect, it } from 'vitest';
import { InventoryUpdate } from '../inventory/inventory.dto.js';
import { bodyValidation } from './validation.pipe.js';

it('a valid body becomes an instance of its class', async () => {
  const update = bodyValidation.transform({ quantity: 5 }, { type: 'custom', metatype: InventoryUpdate });
  expect(await update).toBeInstanceOf(InventoryUpdate);
});
