import createClient from 'openapi-fetch';
import type { paths } from '../generated/typescript/openapi-typescript.js';
import { key, report, url } from './outcome.js';

const client = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${key}` } });

const { data: list } = await client.GET('/inventory');
const fromAsSeen = { params: { path: { petId: 1 }, header: { 'If-Match': '"available-12"' } }, body: { quantity: 13 } };
const { data: updated } = await client.PATCH('/inventory/{petId}', fromAsSeen);
const { error: changed } = await client.PATCH('/inventory/{petId}', fromAsSeen);
const { error } = await client.PATCH('/inventory/{petId}', {
  params: { path: { petId: 404 } },
  body: { quantity: 1 },
});
if (!list || !updated) throw new Error('the list or the update failed');
if (!error || !changed) throw new Error('an update that cannot be went through');

report({ list, updated, changed: changed.code, code: error.code, status: error.status });
