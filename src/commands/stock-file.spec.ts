import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, expect, it } from 'vitest';
import { formatOf, readStockFile } from './stock-file.js';

const folder = mkdtempSync(join(tmpdir(), 'inventory-stock-file-'));
afterAll(() => rmSync(folder, { recursive: true }));

const TEXT = 'petId,quantity,status\n1,2,sold\n';

async function read(content: Buffer, name = 'stock.csv'): Promise<string> {
  const path = join(folder, name);
  writeFileSync(path, content);
  let text = '';
  for await (const part of readStockFile(path)) text += part;
  return text;
}

it.each([
  ['stock.csv', 'csv'],
  ['old.stock.CSV.GZ', 'csv'],
  ['/var/data.d/stock.ndjson', 'ndjson'],
  ['stock.jsonl.gz', 'ndjson'],
  ['stock.json', 'json'],
  ['stock.gz', undefined],
  ['stock.csv.zip', undefined],
  ['-', undefined],
])('takes %s for %s', (name, format) => {
  expect(formatOf(name)).toBe(format);
});

it('reads UTF-8 with and without a byte order mark, and unpacks a file named *.gz', async () => {
  expect(await read(Buffer.from(TEXT))).toBe(TEXT);
  expect(await read(Buffer.from(`\ufeff${TEXT}`), 'stock.gz.csv')).toBe(TEXT);
  expect(await read(gzipSync(TEXT), 'stock.csv.GZ')).toBe(TEXT);
  expect(await read(Buffer.from(`${TEXT}\u00c3`, 'latin1'))).toBe(`${TEXT}\ufffd`); // half a character
});

it.each(['é', 'x\0\0'])(
  'reads a file whose second part begins within a character, or with what looks like UTF-16: %j',
  async (end) => {
    const text = end.padStart(64 * 1024 + end.length - 1, 'x');
    expect((await read(Buffer.from(text))) === text).toBe(true);
  },
);

const utf16 = (text: string) => Buffer.from(text, 'utf16le');

it.each([
  ['UTF-16, little-endian', utf16(TEXT), 'it seems to be UTF-16; save it as UTF-8'],
  ['UTF-16, big-endian', utf16(TEXT).swap16(), 'it seems to be UTF-16; save it as UTF-8'],
  ['UTF-16, little-endian with a mark', utf16(`\ufeff${TEXT}`), 'it seems to be UTF-16; save it as UTF-8'],
  ['UTF-16, big-endian with a mark', utf16(`\ufeff${TEXT}`).swap16(), 'it seems to be UTF-16; save it as UTF-8'],
  ['gzip', gzipSync(TEXT), 'it seems to be packed by gzip; unpack it, or give it a name that ends in .gz'],
  ['UTF-16 within gzip', gzipSync(utf16(TEXT)), 'it seems to be UTF-16; save it as UTF-8', 'stock.csv.gz'],
  ['gzip within gzip', gzipSync(gzipSync(TEXT)), 'it seems to be packed by gzip; unpack it', 'stock.csv.gz'],
])('refuses %s', async (_, content, reason, name = 'stock.csv') => {
  await expect(read(content, name)).rejects.toThrow(`${name} cannot be read: ${reason}`);
});
