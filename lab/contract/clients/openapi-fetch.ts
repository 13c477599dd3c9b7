import createClient from 'openapi-fetch';
import type { paths } from '../generated/typescript/openapi-typescript.ts';

const { INVENTORY_URL: baseUrl = '', INVENTORY_KEY: key = '' } = process.env;
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${key}` } });

const { data: list } = await client.GET('/inventory');
const path = { petId: 1 };
const asSeen = { 'If-Match': '"available-12"' };
const body = { quantity: 13 };
const once = { params: { path, header: { ...asSeen, 'Idempotency-Key': 'openapi-fetch' } }, body };
const { data: updated } = await client.PATCH('/inventory/{petId}', once);
const { data: repeated, response } = await client.PATCH('/inventory/{petId}', once);
const { error: changed } = await client.PATCH('/inventory/{petId}', { params: { path, header: asSeen }, body });
const { error } = await client.PATCH('/inventory/{petId}', {
  params: { path: { petId: 404 } },
  body: { quantity: 1 },
});
if (!list || !updated || !repeated) throw new Error('the list or an update failed');
if (!error || !changed) throw new Error('an update that cannot be went through');

console.log(
  JSON.stringify({
    list,
    updated,
    repeated,
    replayed: response.headers.get('Idempotent-Replayed'),
    changed: changed.code,
    code: error.code,
    status: error.status,
  }),
);
