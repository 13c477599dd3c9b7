import 'reflect-metadata';
import { Readable } from 'node:stream';
import fc from 'fast-check';
import type { Response } from 'express';
import { describe, expect, it } from 'vitest';
import { InventoryUpdate } from './inventory.dto.js';
import type { ApiRequest } from '../http/api-request.js';
import { readJson, validation } from '../http/parameters.js';

async function read(body: string): Promise<InventoryUpdate> {
  const headers = { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(body)) };
  const request = Object.assign(Readable.from([Buffer.from(body)]), { headers, rawHeaders: [] });
  const object = await readJson(request as unknown as ApiRequest, {} as Response);
  return (await validation.transform(object, { type: 'custom', metatype: InventoryUpdate })) as InventoryUpdate;
}

const digits = (maxLength: number) =>
  fc.string({ unit: fc.constantFrom(...'0123456789'.split('')), minLength: 1, maxLength });
const zeros = fc.nat({ max: 12 }).map((count) => '0'.repeat(count));
const jsonNumber = fc
  .record({
    sign: fc.constantFrom('', '', '', '-'),
    whole: fc.tuple(digits(11), zeros).map(([some, end]) => (some + end).replace(/^0+(?=\d)/, '')),
    fraction: fc.option(
      fc.tuple(zeros, fc.option(digits(3), { nil: '0' }), zeros).map((parts) => `.${parts.join('')}`),
    ),
    exponent: fc.option(
      fc.tuple(fc.constantFrom('e', 'E'), fc.integer({ min: -25, max: 12 })).map((parts) => parts.join('')),
    ),
  })
  .map(({ sign, whole, fraction, exponent }) => `${sign}${whole}${fraction ?? ''}${exponent ?? ''}`);

describe('a JSON body', () => {
  it('takes a number exactly when JSON.parse makes an integer in range of it, however it is written', async () => {
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

  it('is refused whatever it is, unless it is an object with a quantity and nothing else', async () => {
    await fc.assert(
      fc.asyncProperty(fc.json(), async (text) => {
        await expect(read(text)).rejects.toMatchObject({ status: 400 });
      }),
    );
  });
});
