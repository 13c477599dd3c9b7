import createClient from 'openapi-fetch';
import type { paths } from '../generated/typescript/openapi-typescript.js';
import { key, report, url } from './outcome.js';

const client = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${key}` } });

const { data: list } = await client.GET('/v1/inventory');
const { data: updated } = await client.PATCH('/v1/inventory/{petId}', {
  params: { path: { petId: 1 } },
  headers: { 'If-Match': '"available-12"' },
  body: { quantity: 13 },
});
const { error } = await client.PATCH('/v1/inventory/{petId}', {
  params: { path: { petId: 404 } },
  body: { quantity: 1 },
});
if (!list || !updated) throw new Error('the list or the update failed');
if (!error) throw new Error('an update of a pet that is not there went through');

report({ list, updated, code: error.code, status: error.status });
