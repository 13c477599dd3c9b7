import { hash } from 'node:crypto';
import { PassThrough } from 'node:stream';
import fc from 'fast-check';
import type { Connection } from 'pg';
import { describe, expect, it } from 'vitest';
import { ListReading } from './list.reading.js';

/** A message of PostgreSQL's protocol, and a data row as one. */
function message(type: string, content: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.write(type);
  head.writeUInt32BE(content.length + 4, 1);
  return Buffer.concat([head, content]);
}
function dataRow(...columns: string[]): Buffer {
  const count = Buffer.alloc(2);
  count.writeUInt16BE(columns.length);
  const parts = columns.map((column) => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(column.length);
    return Buffer.concat([length, Buffer.from(column)]);
  });
  return message('D', Buffer.concat([count, ...parts]));
}

/** A reading that gets these bytes in these pieces, and what its driver got of them. */
function read(pieces: readonly Buffer[]): { reading: ListReading; forDriver: Buffer } {
  const stream = new PassThrough();
  const forDriver: Buffer[] = [];
  stream.on('data', (chunk: Buffer) => forDriver.push(chunk));
  const ignore = () => undefined;
  const connection = { stream, parse: ignore, bind: ignore, execute: ignore, sync: ignore };
  const reading = new ListReading(0);
  reading.submit(connection as unknown as Connection);
  for (const piece of pieces) stream.emit('data', piece);
  return { reading, forDriver: Buffer.concat(forDriver) };
}

const SNAPSHOT = dataRow('728:728:');
const COMPLETE = message('C', Buffer.from('SELECT 1\0'));
const READY = message('Z', Buffer.from('I'));

const item = fc.record({
  petId: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  quantity: fc.nat({ max: 2 ** 31 - 1 }),
  status: fc.constantFrom('available', 'pending', 'sold'),
});

describe('a reading of the list', () => {
  it('writes and tags every row, and leaves all else to the driver, however the bytes arrive', () => {
    const stocks = fc.array(item, { maxLength: 20 });
    const sizes = fc.array(fc.integer({ min: 1, max: 60 }), { minLength: 1, maxLength: 200 });
    fc.assert(
      fc.property(stocks, sizes, (items, pieceSizes) => {
        const rows = items.map(({ petId, quantity, status }) => dataRow(String(petId), String(quantity), status));
        const bytes = Buffer.concat([SNAPSHOT, COMPLETE, ...rows, COMPLETE, READY]);
        const pieces: Buffer[] = [];
        for (let at = 0, n = 0; at < bytes.length; n++) {
          pieces.push(bytes.subarray(at, (at += pieceSizes[n % pieceSizes.length] ?? 1)));
        }
        const { reading, forDriver } = read(pieces);
        const json = items.map(
          (each) => `{"petId":${each.petId},"quantity":${each.quantity},"status":"${each.status}"}`,
        );
        const list = reading.list();
        expect(list.bytes.toString()).toBe(`[${json.join(',')}]`);
        expect(list.tag('identity')).toBe(hash('sha256', list.bytes, 'base64url').slice(0, 27));
        expect(forDriver).toEqual(Buffer.concat([SNAPSHOT, COMPLETE, COMPLETE, READY]));
      }),
    );
  });
});
