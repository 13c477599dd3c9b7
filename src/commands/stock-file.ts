import { createReadStream } from 'node:fs';
import { pipeline, Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { Failure } from '../errors/error-text.js';

export const FORMATS = ['csv', 'ndjson', 'json'] as const;
export type Format = (typeof FORMATS)[number];

/** `export` writes the first three. A tsv is a csv whose header has tabs. */
const FORMAT_OF_ENDING: Readonly<Record<string, Format>> = {
  csv: 'csv',
  ndjson: 'ndjson',
  json: 'json',
  jsonl: 'ndjson',
  tsv: 'csv',
};

export function formatOf(name: string): Format | undefined {
  const ending = name.toLowerCase().replace(/\.gz$/, '').split('.').pop() ?? '';
  return Object.hasOwn(FORMAT_OF_ENDING, ending) ? FORMAT_OF_ENDING[ending] : undefined;
}

/** The last line of CSV and NDJSON tells that nothing is missing, or that something is. No line of a pet is like these. */
export const END_MARK = '# end';
export const FAILED_MARK = '# failed';

/** The text of a file, or of standard input if the name is `-`; unpacks `*.gz`. @throws Failure when it cannot be read */
export async function* readStockFile(name: string): AsyncGenerator<string> {
  const source: AsyncIterable<Buffer> = name === '-' ? process.stdin : createReadStream(name);
  let decoder: TextDecoder | undefined; // takes a byte order mark away
  try {
    const isPacked = name.toLowerCase().endsWith('.gz');
    const packed = () => Readable.from(judged(source, refuseUnpacked));
    const content = isPacked ? pipeline(packed(), createGunzip(), () => undefined) : source;
    for await (const chunk of judged(content as AsyncIterable<Buffer>, refuseForeign)) {
      if (decoder) {
        yield decoder.decode(chunk, { stream: true });
      } else {
        decoder = new TextDecoder(encodingOf(chunk.toString('latin1', 0, 4)));
        // An editor may have added a second mark, or one that it read as Windows-1252.
        yield decoder.decode(chunk, { stream: true }).replace(/^(\ufeff|\u00ef\u00bb\u00bf)+/, '');
      }
    }
  } catch (error) {
    const { message, code = '' } = error as NodeJS.ErrnoException;
    const reason = code.startsWith('Z_') ? 'it is damaged or not whole; copy it again' : message;
    throw new Failure(`${name === '-' ? 'standard input' : name} cannot be read: ${reason}`);
  }
  if (decoder) yield decoder.decode();
}

/** @param start four bytes, as characters. Spreadsheets write UTF-16 ("Unicode Text") with a mark, other programs also without. */
function encodingOf(start: string): 'utf-8' | 'utf-16le' | 'utf-16be' {
  if (/^(\xff\xfe(?!\0\0)|([\t-\r -~]\0){2})/.test(start)) return 'utf-16le';
  return /^(\xfe\xff|(\0[\t-\r -~]){2})/.test(start) ? 'utf-16be' : 'utf-8';
}

/** Shows the first bytes to `judge`, which refuses the whole content by one line instead of a problem for each row. */
async function* judged(content: AsyncIterable<Buffer>, judge: (head: string) => void): AsyncGenerator<Buffer> {
  let head: Buffer | undefined = Buffer.alloc(0);
  for await (const chunk of content) {
    if (head === undefined) {
      yield chunk;
    } else {
      head = Buffer.concat([head, chunk]);
      if (head.length < ENOUGH_BYTES) continue;
      judge(head.toString('latin1', 0, LONGEST_HEAD));
      yield head;
      head = undefined;
    }
  }
  if (head === undefined) return;
  judge(head.toString('latin1', 0, LONGEST_HEAD));
  yield head;
}

const ENOUGH_BYTES = 4_096;
const LONGEST_HEAD = 65_536;

const SAVE_AS_CSV = 'save the sheet as CSV UTF-8 and import that file';
const GZIP = '\x1f\x8b';

/** How files begin that people mistake for stock (a character for each byte), and what to tell them. */
const FOREIGN: readonly (readonly [RegExp, string])[] = [
  [/^(\xff\xfe\0\0|\0\0\xfe\xff|([ -~]\0{3}){2}|(\0{3}[ -~]){2})/, 'it seems to be UTF-32; save it as UTF-8'],
  [/^\x1f\x8b/, 'it seems to be packed by gzip; unpack it, or give it a name that ends in .gz'],
  [/^PK\x03\x04[^]*?mimetypeapplication\/vnd\.oasis/, `it is an OpenDocument spreadsheet; ${SAVE_AS_CSV}`],
  [/^PK\x03\x04[^]*?(Index\/|\.iwa)/, 'it is a Numbers spreadsheet; export it as CSV and import that file'],
  [/^PK\x03\x04[^]*?(word|ppt)\//, 'it is an Office document; save its table as CSV UTF-8 and import that file'],
  [/^PK\x03\x04[^]*?(xl\/|\[Content_Types\]|_rels\/)/, `it is an Excel workbook; ${SAVE_AS_CSV}`],
  [/^PK(\x03\x04|\x05\x06|\x07\x08)/, 'it is a zip archive; unpack it and import the file in it'],
  [/^\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1/, `it is an Excel workbook (.xls); ${SAVE_AS_CSV}`],
  [/^\x09[\0\x02\x04\x08][\x04-\x10]\0/, `it is an Excel workbook (.xls); ${SAVE_AS_CSV}`],
  [/^(\xef\xbb\xbf)*\s*<\?xml[^]*?(Excel|:spreadsheet)/, `it is an Excel workbook in XML; ${SAVE_AS_CSV}`],
  [/^(\xef\xbb\xbf)*\s*<\?xml(?![^]*<html)/i, 'it is XML; save the stock as CSV UTF-8 and import that file'],
  [/^(\xef\xbb\xbf)*\s*</, 'it is a web page, perhaps one to sign in; download the stock again as CSV'],
  [/^(\xef\xbb\xbf)*\s*%PDF-/, 'it is a PDF; save the sheet that it was made from as CSV UTF-8'],
  [/^\{\\rtf/, 'it is a text document (RTF); save its table as CSV UTF-8 and import that file'],
  [/^(BZh|7z\xbc\xaf|\xfd7zXZ|\x28\xb5\x2f\xfd|Rar!)/, 'it is packed by another program than gzip; unpack it first'],
  // \x1a ended a file in DOS.
  [/[\0-\x08\x0e-\x19\x1c-\x1f]/, 'it is no text, or it was damaged; save the stock as CSV UTF-8 and import that file'],
];

function refuseForeign(head: string): void {
  const encoding = encodingOf(head);
  const text = encoding === 'utf-8' ? head : new TextDecoder(encoding).decode(Buffer.from(head, 'latin1'));
  for (const [start, told] of FOREIGN) if (start.test(text)) throw new Error(told);
}

/** For a file whose name says that it is packed. */
function refuseUnpacked(head: string): void {
  if (head === '') throw new Error('it is empty');
  if (head.startsWith(GZIP)) return;
  refuseForeign(head);
  throw new Error('it is not packed by gzip, although its name ends in .gz; take .gz away from its name');
}
