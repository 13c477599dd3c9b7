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

/** The last line of CSV and NDJSON: that nothing is missing, or that something is. No pet's line is like these. */
export const END_MARK = '# end';
export const FAILED_MARK = '# failed';

/**
 * Opens a file of stock, or standard input when the name is `-`; a name that ends in `.gz` is unpacked on the way.
 *
 * @param tellShare is told how much has been read, 0 to 1; 0 where the size is not known: standard input and pipes
 * @returns its text, which is UTF-8, and whether it comes from a regular file
 * @throws Failure when it cannot be read
 */
export async function openStockFile(name: string, tellShare: (share: number) => void) {
  function refuse(error: unknown): never {
    throw new Failure(`${name === '-' ? 'standard input' : name} cannot be read: ${(error as Error).message}`);
  }
  const file = name === '-' ? undefined : await stat(name).catch(refuse);
  async function* read(): AsyncGenerator<string> {
    const size = file?.size ?? 0;
    const packed = file ? createReadStream(name, { highWaterMark: 256 * 1024 }) : process.stdin;
    const isPacked = name.toLowerCase().endsWith('.gz');
    const content = isPacked ? pipeline(packed, createGunzip(), () => undefined) : packed;
    const decoder = new TextDecoder(); // takes a BOM away
    let isFirst = true;
    try {
      for await (const chunk of content as AsyncIterable<Buffer>) {
        if (isFirst) refuseForeign(chunk);
        isFirst = false;
        tellShare(size > 0 ? packed.bytesRead / size : 0);
        yield decoder.decode(chunk, { stream: true });
      }
    } catch (error) {
      refuse(error);
    }
    yield decoder.decode();
  }
  return { text: read(), isRegular: file?.isFile() ?? false };
}

/** Once, instead of a problem for each line. */
function refuseForeign(chunk: Buffer): void {
  const start = chunk.toString('hex', 0, 2);
  if (/^(fffe|feff|00..|..00)$/.test(start)) throw new Error('it seems to be UTF-16; save it as UTF-8');
  if (start === '1f8b') throw new Error('it seems to be packed by gzip; unpack it, or give it a name that ends in .gz');
}
