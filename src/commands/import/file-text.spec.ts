import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, expect, it } from 'vitest';
import { readText } from './file-text.ts';
import { HEADER_RULE } from './problems.ts';

const folder = mkdtempSync(join(tmpdir(), 'inventory-file-text-'));
afterAll(() => rmSync(folder, { recursive: true }));

const TEXT = 'petId,quantity,status\n1,2,sold\n';
const utf16 = Buffer.from(`\ufeff${TEXT}`, 'utf16le');

async function read(content: Buffer, name = 'stock.csv'): Promise<string> {
  const path = join(folder, name);
  writeFileSync(path, content);
  let text = '';
  for await (const part of readText(path)) text += part;
  return text;
}

it.each([
  ['UTF-8', Buffer.from(TEXT)],
  ['UTF-8 with a mark', Buffer.from(`\ufeff${TEXT}`)],
  ['UTF-16, as Excel writes "Unicode Text"', utf16],
  ['UTF-16, big-endian', Buffer.from(utf16).swap16()],
  ['gzip', gzipSync(TEXT), 'stock.csv.GZ'],
])('reads %s', async (_, content, name = 'stock.csv') => {
  expect(await read(content, name)).toBe(TEXT);
});

it('reads a character that comes in two parts', async () => {
  const text = 'é'.padStart(64 * 1024, 'x');
  expect((await read(Buffer.from(text))) === text).toBe(true);
});

const [NO_TEXT, NO_GZIP] = [
  'it is not text in UTF-8',
  'its name ends in .gz, but it is no gzip data, or not all of it',
];

it.each([
  ['half a character', Buffer.from(`${TEXT}\u00c3`, 'latin1'), NO_TEXT],
  ['a workbook', Buffer.from('PK\x03\x04\x14\0\x08\0\x08\0Sjy]z\xc5\xbe\xe1', 'latin1'), NO_TEXT],
  ['gzip without its name', gzipSync(TEXT), NO_TEXT],
  ['text named as gzip', Buffer.from(TEXT), NO_GZIP, 'stock.csv.gz'],
  ['gzip that is cut', gzipSync(TEXT).subarray(0, -9), NO_GZIP, 'stock.csv.gz'],
])('refuses %s without showing any of it', async (_, content, what, name = 'stock.csv') => {
  const message = `the file has no stock that an import can read: ${what}. Save it as CSV UTF-8 (*.csv); ${HEADER_RULE}`;
  await expect(read(content, name)).rejects.toThrow(new Error(message));
});

it.each(['none.csv', 'none.csv.gz'])('says why a file cannot be read: %s', async (name) => {
  const path = join(folder, name);
  const message = `${path} cannot be read: ENOENT: no such file or directory`;
  await expect(readText(path).next()).rejects.toThrow(message);
});
