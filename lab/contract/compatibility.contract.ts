import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { contractFolder, documentFile } from './tools.ts';

const present = readFileSync(documentFile, 'utf8');

const WORDS = ['info', 'tags', 'summary', 'description', 'example', 'examples'];
/** A schema without one of these limits is compared as having none, so that a new limit is a difference. */
const NO_LIMITS = Object.fromEntries(
  ['format', 'pattern', 'enum', 'minimum', 'maximum', 'required', 'additionalProperties'].map((limit) => [limit, null]),
);

/** The document without its words. Its parameters are given by name, so that a new optional one is an addition. */
function promises(document: string): unknown {
  return JSON.parse(document, (key, value: unknown) => {
    if (WORDS.includes(key)) return undefined;
    if (key === 'parameters') {
      const parameters = value as { name: string; required?: boolean }[];
      const required = parameters.filter((parameter) => parameter.required).map(({ name }) => name);
      return { required, ...Object.fromEntries(parameters.map((parameter) => [parameter.name, parameter])) };
    }
    const isSchema = typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string';
    return isSchema ? { ...NO_LIMITS, ...value } : value;
  });
}

/** A copy of the openapi.json for which clients were made. Each release replaces it: that accepts an allowed change. */
const released = promises(readFileSync(join(contractFolder, 'openapi.released.json'), 'utf8'));

it('openapi.json still has all that the released document has, unchanged', () => {
  expect(promises(present)).toMatchObject(released as object);
});

it.each([
  ['an operation that is gone', '"/inventory"', '"/stock"'],
  ['another scope', '"x-required-scope": "inventory:read"', '"x-required-scope": "inventory:write"'],
  ['a response that is gone', '"412": {', '"x-412": {'],
  ['a response without its ETag', '"ETag": {', '"Tag": {'],
  ['a state that no client knows', '"pending",', '"pending", "lost",'],
  ['a member that is gone', '"quantity": {', '"count": {'],
  ['a new required member', '"required": [\n          "quantity"\n', '"required": [ "quantity", "reason"\n'],
  ['a new required parameter', '"parameters": [\n', '"parameters": [{ "in": "query", "name": "q", "required": true },'],
  ['a lower maximum', '"maximum": 2147483647', '"maximum": 9'],
  ['a pattern where there was none', '"type": "string"', '"type": "string", "pattern": "x"'],
])('finds %s', (_change, from, to) => {
  expect(present).toContain(from);
  expect(promises(present.replaceAll(from, to))).not.toMatchObject(released as object);
});

it.each([
  ['other words', '"The stock of one pet."', '"One pet."'],
  ['a new optional member', '"quantity": {', '"price": { "type": "integer" }, "quantity": {'],
  ['a new optional parameter', '"parameters": [\n', '"parameters": [{ "in": "query", "name": "status" },'],
])('accepts %s', (_change, from, to) => {
  expect(present).toContain(from);
  expect(promises(present.replaceAll(from, to))).toMatchObject(released as object);
});
