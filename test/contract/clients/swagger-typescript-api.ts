import {
  Api,
  type HttpResponse,
  type InventoryItem,
  type Error as InventoryError,
} from '../generated/typescript/swagger-typescript-api.js';
import { key, report, url } from './outcome.js';

const { v1 } = new Api({ baseUrl: url, baseApiParams: { headers: { Authorization: `Bearer ${key}` } } });

const list = await v1.listInventory();
const updated = await v1.updateInventory(1, { quantity: 13 }, { headers: { 'If-Match': '"available-12"' } });
const refused = await v1
  .updateInventory(404, { quantity: 1 })
  .catch((answer: HttpResponse<InventoryItem, InventoryError>) => answer);

report({ list: list.data, updated: updated.data, code: refused.error.code, status: refused.error.status });
