import { createClient } from '../generated/typescript/hey-api/client/index.js';
import { listInventory, updateInventory } from '../generated/typescript/hey-api/sdk.gen.js';
import { key, report, url } from './outcome.js';

const client = createClient({ baseUrl: url, auth: key });

const list = await listInventory({ client, throwOnError: true });
const fromAsSeen = { client, path: { petId: 1 }, headers: { 'If-Match': '"available-12"' }, body: { quantity: 13 } };
const once = {
  ...fromAsSeen,
  headers: { ...fromAsSeen.headers, 'Idempotency-Key': 'hey-api' },
  throwOnError: true,
} as const;
const updated = await updateInventory(once);
const repeated = await updateInventory(once);
const { error: changed } = await updateInventory(fromAsSeen);
const { error } = await updateInventory({ client, path: { petId: 404 }, body: { quantity: 1 } });
if (!error || !changed) throw new Error('an update that cannot be went through');

report({
  list: list.data,
  updated: updated.data,
  repeated: repeated.data,
  replayed: repeated.response.headers.get('Idempotent-Replayed'),
  changed: changed.code,
  code: error.code,
  status: error.status,
});
