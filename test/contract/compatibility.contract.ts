import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { breakingChanges, type Document } from './compatibility.ts';
import { contractFolder, documentFile } from './tools.ts';

const present = readFileSync(documentFile, 'utf8');
/** What clients have been made for: a copy of openapi.json, replaced with every release. */
const released = readFileSync(join(contractFolder, 'openapi.released.json'), 'utf8');

describe('openapi.json', () => {
  it('breaks no client of the released document, unless its major version has grown', () => {
    const [before, after] = [parse(released), parse(present)];
    const isNewMajor = Number.parseInt(after.info.version) > Number.parseInt(before.info.version);
    expect(isNewMajor ? [] : breakingChanges(before, after)).toEqual([]);
  });
});

describe('a change of the document', () => {
  it.each([
    ['an operation that is gone', '"/inventory"', '"/stock"'],
    ['another operation id', '"listInventory"', '"getInventory"'],
    ['another scope', '"x-required-scope": "inventory:read"', '"x-required-scope": "inventory:write"'],
    ['an answer without its ETag', '"ETag": {', '"Tag": {'],
    ['a success with another status', '"200": {', '"203": {'],
    ['another media type', '"application/json": {', '"application/hal+json": {'],
    ['a state that no client knows', '"pending",', '"pending", "lost",'],
    ['a petId that is text', '"integer",\n            "format": "int64"', '"string",\n            "format": "int64"'],
    ['a quantity below 0', '"minimum": 0,', '"minimum": -1,'],
    ['a status that may be missing', '"quantity",\n          "status"', '"quantity"'],
    ['an item without its quantity', '"quantity": {', '"count": {'],
  ])('breaks clients: %s', (_change, from, to) => {
    expect(breakingChanges(parse(present), changed(from, to))).not.toEqual([]);
  });

  it.each([
    ['other words', '"The stock of one pet."', '"One pet."'],
    ['one member more in an answer', '"quantity": {', '"price": { "type": "integer" }, "quantity": {'],
    ['a new optional parameter', '"parameters": [', '"parameters": [{ "in": "query", "name": "status" },'],
    ['a failure that happens no more', '"408": {', '"x-408": {'],
    ['another request of an experimental operation', '"maximum": 2147483647,', '"maximum": 9,'],
    ['an error code more', '"method_not_allowed",', '"method_not_allowed", "teapot",'],
  ])('breaks none: %s', (_change, from, to) => {
    expect(breakingChanges(parse(present), changed(from, to))).toEqual([]);
  });

  it.each([
    ['a new required parameter', '"parameters": [', '"parameters": [{ "in": "query", "name": "q", "required": true },'],
    ['a parameter that has become required', '"required": false', '"required": true'],
    ['a lower maximum', '"maximum": 2147483647,', '"maximum": 9,'],
    ['another required member', '"required": [\n          "quantity"\n', '"required": [ "quantity", "reason"\n'],
  ])('of the request breaks clients once it is stable: %s', (_change, from, to) => {
    const stable = present.replaceAll('"x-stability": "experimental"', '"x-stability": "stable"');
    expect(breakingChanges(parse(stable), changed(from, to))).not.toEqual([]);
  });

  function changed(from: string, to: string): Document {
    expect(present).toContain(from);
    return parse(present.replaceAll(from, to));
  }
});

function parse(document: string): Document {
  return JSON.parse(document) as Document;
}
