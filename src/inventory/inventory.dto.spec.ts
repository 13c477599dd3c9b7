import 'reflect-metadata';
import { Readable } from 'node:stream';
import fc from 'fast-check';
import type { Response } from 'express';
import { describe, expect, it } from 'vitest';
import { InventoryUpdate } from './inventory.dto.js';
import type { ApiRequest } from '../http/request-context.js';
import { readJson } from '../http/json-body.js';
import { bodyValidation } from '../http/validation.pipe.js';

async function read(body: string): Promise<InventoryUpdate> {
  const headers = { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)) };
  const request = Object.assign(Readable.from([Buffer.from(body)]), { headers, rawHeaders: [] });
  const object = await readJson(request as unknown as ApiRequest, {} as Response);
  return (await bodyValidation.transform(object, { type: 'custom', metatype: InventoryUpdate })) as InventoryUpdate;
}

/** Among them one in twelve is an integer in range that is not written as one, such as 150e-1. */
const jsonNumber = fc.stringMatching(/^-?(\d|[1-9]\d{1,9}0{0,12})(\.(0{1,12}|\d{1,3}0{0,12}))?([eE]-?[12]?\d)?$/);

describe('a JSON body', () => {
  it('accepts a number, however written, if JSON.parse reads it as an integer in range', async () => {
    await fc.assert(
      fc.asyncProperty(jsonNumber, async (text) => {
        const value = JSON.parse(text) as number;
        const fits = Number.isInteger(value) && value >= 0 && value <= 2_147_483_647;
        const taken = await read(`{"quantity":${text}}`).then(
          ({ quantity }) => quantity,
          () => undefined,
        );
        expect(taken).toBe(fits ? value : undefined);
      }),
      { numRuns: 1_000 },
    );
  });

  it('is refused unless it is an object with quantity as its only member', async () => {
    await fc.assert(
      fc.asyncProperty(fc.json(), async (text) => {
        await expect(read(text)).rejects.toMatchObject({ status: 400 });
      }),
    );
  });
});
