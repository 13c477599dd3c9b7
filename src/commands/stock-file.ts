import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { Failure } from '../errors/error-text.js';

export const FORMATS = ['csv', 'ndjson', 'json'] as const;
export type Format = (typeof FORMATS)[number];

export function formatOf(name: string): Format | undefined {
  const ending = name.toLowerCase().replace(/\.gz$/, '').split('.').pop();
  return ending === 'jsonl' ? 'ndjson' : FORMATS.find((format) => format === ending);
}

/** The last line of CSV and NDJSON: that nothing is missing, or that something is. No pet's line is like these. */
export const END_MARK = '# end';
export const FAILED_MARK = '# failed';

/** The text of a file, or of standard input if the name is `-`; unpacks `*.gz`. @throws Failure when it cannot be read */
export async function* readStockFile(name: string): AsyncGenerator<string> {
  const packed = name === '-' ? process.stdin : createReadStream(name);
  const isPacked = name.toLowerCase().endsWith('.gz');
  const decoder = new TextDecoder(); // takes a BOM away
  let isFirst = true;
  try {
    const content: AsyncIterable<Buffer> = isPacked ? pipeline(packed, createGunzip(), () => undefined) : packed;
    for await (const chunk of content) {
      if (isFirst) refuseForeign(chunk);
      isFirst = false;
      yield decoder.decode(chunk, { stream: true });
    }
  } catch (error) {
    throw new Failure(`${name === '-' ? 'standard input' : name} cannot be read: ${(error as Error).message}`);
  }
  yield decoder.decode();
}

/** Once, instead of a problem for each line. */
function refuseForeign(chunk: Buffer): void {
  const start = chunk.toString('hex', 0, 2);
  if (/^(fffe|feff|00..|..00)$/.test(start)) throw new Error('it seems to be UTF-16; save it as UTF-8');
  if (start === '1f8b') throw new Error('it seems to be packed by gzip; unpack it, or give it a name that ends in .gz');
}
