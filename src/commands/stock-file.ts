import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { pipeline } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { Failure } from '../errors/error-text.js';

export const FORMATS = ['csv', 'ndjson', 'json'] as const;
export type Format = (typeof FORMATS)[number];

/** The format that a file's name tells, `.gz` aside. */
export function formatOf(name: string): Format | undefined {
  const ending = name.toLowerCase().replace(/\.gz$/, '').split('.').pop();
  return ending === 'jsonl' ? 'ndjson' : FORMATS.find((format) => format === ending);
}

/**
 * The text of a file in UTF-8, or of standard input when the name is `-`; a name that ends in `.gz` is unpacked on the way.
 *
 * @param tellShare is told how much has been read, 0 to 1; 0 where the size is not known: standard input and pipes
 * @throws Failure when it cannot be read
 */
export async function* readStockFile(name: string, tellShare: (share: number) => void): AsyncGenerator<string> {
  const decoder = new TextDecoder(); // takes a BOM away
  try {
    const size = name === '-' ? 0 : (await stat(name)).size;
    const packed = name === '-' ? process.stdin : createReadStream(name, { highWaterMark: 256 * 1024 });
    const isPacked = name.toLowerCase().endsWith('.gz');
    const content = isPacked ? pipeline(packed, createGunzip(), () => undefined) : packed;
    for await (const chunk of content as AsyncIterable<Buffer>) {
      tellShare(size > 0 ? packed.bytesRead / size : 0);
      yield decoder.decode(chunk, { stream: true });
    }
    yield decoder.decode();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const what = name === '-' ? 'standard input' : name;
    if (code === 'ENOENT') throw new Failure(`there is no file ${what}`);
    if (code?.startsWith('Z_')) throw new Failure(`${what} is not sound gzip: ${message}`);
    throw new Failure(`${what} cannot be read: ${message}`);
  }
}
