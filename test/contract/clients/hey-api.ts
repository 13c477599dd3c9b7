import { createClient } from '../generated/typescript/hey-api/client/index.js';
import { listInventory, updateInventory } from '../generated/typescript/hey-api/sdk.gen.js';
import { key, report, url } from './outcome.js';

const client = createClient({ baseUrl: url, auth: key });

const list = await listInventory({ client, throwOnError: true });
const updated = await updateInventory({
  client,
  path: { petId: 1 },
  headers: { 'If-Match': '"available-12"' },
  body: { quantity: 13 },
  throwOnError: true,
});
const { error } = await updateInventory({ client, path: { petId: 404 }, body: { quantity: 1 } });
if (!error) throw new Error('an update of a pet that is not there went through');

report({ list: list.data, updated: updated.data, code: error.code, status: error.status });
