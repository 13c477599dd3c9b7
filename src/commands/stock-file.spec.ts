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
  ['stock.tsv', 'csv'],
  ['stock.json', 'json'],
  ['stock.gz', undefined],
  ['stock.csv.zip', undefined],
  ['-', undefined],
])('takes %s for %s', (name, format) => {
  expect(formatOf(name)).toBe(format);
});

it('reads UTF-8 with and without a byte order mark, and unpacks a file named *.gz', async () => {
  expect(await read(Buffer.from(TEXT))).toBe(TEXT);
  expect(await read(Buffer.from(`\ufeff\ufeff${TEXT}`), 'stock.gz.csv')).toBe(TEXT);
  expect(await read(gzipSync(TEXT), 'stock.csv.GZ')).toBe(TEXT);
  expect(await read(Buffer.from(`${TEXT}\u00c3`, 'latin1'))).toBe(`${TEXT}\ufffd`); // half a character
  // The mark of a file that was read as Windows-1252 and saved as UTF-8.
  expect(await read(Buffer.from(`\ufeff\u00ef\u00bb\u00bf${TEXT}`))).toBe(TEXT);
});

it('reads UTF-16, as Excel writes "Unicode Text", also without a mark, and half a character of it', async () => {
  for (const mark of ['\ufeff', '']) {
    const sheet = utf16(`${mark}${TEXT}`);
    expect(await read(sheet)).toBe(TEXT);
    expect(await read(gzipSync(Buffer.from(sheet).swap16()), 'stock.csv.gz')).toBe(TEXT);
    expect(await read(sheet.subarray(0, -1))).toBe(`${TEXT.slice(0, -1)}\ufffd`);
  }
});

it.each(['é', 'x\0\0'])(
  'reads a file whose second part begins within a character, or with what looks like UTF-16: %j',
  async (end) => {
    const text = end.padStart(64 * 1024 + end.length - 1, 'x');
    expect((await read(Buffer.from(text))) === text).toBe(true);
  },
);

const zip = (...names: string[]) => Buffer.from(names.map((name) => `PK\x03\x04${'\0'.repeat(26)}${name}\0`).join(''));
const WORKBOOK = 'it is an Excel workbook; save the sheet as CSV UTF-8 and import that file';
const utf16 = (text: string) => Buffer.from(text, 'utf16le');

it.each([
  ['a web page in UTF-16', utf16('\ufeff<html>'), 'it is a web page, perhaps one to sign in'],
  ['gzip', gzipSync(TEXT), 'it seems to be packed by gzip; unpack it, or give it a name that ends in .gz'],
  ['UTF-32', Buffer.from([0xff, 0xfe, 0, 0, 0x70, 0, 0, 0]), 'it seems to be UTF-32; save it as UTF-8'],
  ['UTF-32 without a mark', Buffer.from('p\0\0\0e\0\0\0'), 'it seems to be UTF-32; save it as UTF-8'],
  ['UTF-32, big-endian', Buffer.from('\0\0\0p\0\0\0e'), 'it seems to be UTF-32; save it as UTF-8'],
  ['gzip that is cut', gzipSync(TEXT).subarray(0, -9), 'it is damaged or not whole; copy it again', 'stock.csv.gz'],
  ['an old workbook without a folder', Buffer.from('0900040007001000', 'hex'), 'it is an Excel workbook (.xls)'],
  ['a workbook', zip('[Content_Types].xml', 'xl/workbook.xml'), WORKBOOK],
  ['a workbook within gzip', gzipSync(zip('_rels/.rels', 'xl/workbook.xml')), WORKBOOK, 'stock.csv.gz'],
  ['a workbook that is named as gzip', zip('xl/workbook.xml'), WORKBOOK, 'stock.csv.gz'],
  ['an old workbook', Buffer.from('d0cf11e0a1b11ae100', 'hex'), 'it is an Excel workbook (.xls); save the sheet'],
  [
    'a workbook in XML',
    Buffer.from('<?xml version="1.0"?>\n<?mso-application progid="Excel.Sheet"?>'),
    'it is an Excel workbook in XML',
  ],
  [
    'an OpenDocument sheet',
    zip('mimetypeapplication/vnd.oasis.opendocument.spreadsheet'),
    'it is an OpenDocument spreadsheet; save',
  ],
  ['a Numbers sheet', zip('Index/Document.iwa'), 'it is a Numbers spreadsheet; export it as CSV'],
  ['a text document', zip('[Content_Types].xml', 'word/document.xml'), 'it is an Office document'],
  ['a zip archive', zip('stock.csv'), 'it is a zip archive; unpack it and import the file in it'],
  ['a PDF', Buffer.from('%PDF-1.7\n'), 'it is a PDF; save the sheet that it was made from as CSV UTF-8'],
  ['a web page', Buffer.from(`\ufeff\n<!DOCTYPE html><html>`), 'it is a web page, perhaps one to sign in'],
  ['XML', Buffer.from('<?xml version="1.0"?><stock/>'), 'it is XML; save the stock as CSV UTF-8'],
  [
    'a picture',
    Buffer.from('\x89PNG\r\n\x1a\n\0\0\0\rIHDR', 'latin1'),
    'it is no text, or it was damaged; save the stock',
  ],
  ['zeros', Buffer.alloc(100), 'it is no text, or it was damaged'],
  ['text named as gzip', Buffer.from(TEXT), 'it is not packed by gzip, although its name ends in .gz', 'stock.csv.gz'],
  ['nothing named as gzip', Buffer.alloc(0), 'it is empty', 'stock.csv.gz'],
  ['gzip within gzip', gzipSync(gzipSync(TEXT)), 'it seems to be packed by gzip; unpack it', 'stock.csv.gz'],
])('refuses %s', async (_, content, reason, name = 'stock.csv') => {
  await expect(read(content, name)).rejects.toThrow(`${name} cannot be read: ${reason}`);
});
