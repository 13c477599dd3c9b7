import {
  Api,
  type HttpResponse,
  type InventoryItem,
  type Error as InventoryError,
} from '../generated/typescript/swagger-typescript-api.js';
import { key, report, url } from './outcome.js';

const { inventory } = new Api({ baseUrl: url, baseApiParams: { headers: { Authorization: `Bearer ${key}` } } });
/** This generator leaves header parameters to the last argument. */
const asSeen = { headers: { 'If-Match': '"available-12"' } };
const once = { headers: { ...asSeen.headers, 'Idempotency-Key': 'swagger-typescript-api' } };
const asRefused = (response: HttpResponse<InventoryItem, InventoryError>) => response;

const list = await inventory.listInventory();
const updated = await inventory.updateInventory(1, { quantity: 13 }, once);
const repeated = await inventory.updateInventory(1, { quantity: 13 }, once);
const changed = await inventory.updateInventory(1, { quantity: 13 }, asSeen).catch(asRefused);
const { error } = await inventory.updateInventory(404, { quantity: 1 }).catch(asRefused);

report({
  list: list.data,
  updated: updated.data,
  repeated: repeated.data,
  replayed: repeated.headers.get('Idempotent-Replayed'),
  changed: changed.error.code,
  code: error.code,
  status: error.status,
});
