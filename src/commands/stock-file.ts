import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { PassThrough, pipeline } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { Failure } from '../errors/failure.js';

export const FORMATS = ['csv', 'ndjson', 'json'] as const;
export type Format = (typeof FORMATS)[number];

/** The format that a file's name tells, `.gz` aside. */
export function formatOf(name: string): Format | undefined {
  const ending = name.toLowerCase().replace(/\.gz$/, '').split('.').pop() ?? '';
  return ending === 'jsonl' ? 'ndjson' : FORMATS.find((format) => format === ending);
}

/**
 * Opens a file of stock, or standard input when the name is `-`; a name that ends in `.gz` is unpacked on the way.
 *
 * @throws Failure when it cannot be read, then or later
 */
export async function openStockFile(name: string) {
  const facts = name === '-' ? undefined : await stat(name).catch((error: unknown) => fail(name, error));
  const disk = facts && createReadStream(name, { highWaterMark: 256 * 1024 });
  const unpacked = name.toLowerCase().endsWith('.gz') ? createGunzip() : new PassThrough();
  pipeline(disk ?? process.stdin, unpacked, () => undefined);
  unpacked.on('error', () => undefined); // it may come before anyone reads; whoever does gets it then
  return {
    /** Unpacked content. */
    chunks: failing(name, unpacked),
    /** How much of it has been read, 0 to 1; 0 where its size is not known: standard input and pipes. */
    share: () => (disk && facts.isFile() ? disk.bytesRead / facts.size : 0),
    /** Lets go of it, read to its end or not: an open standard input would keep the process alive. */
    close: () => unpacked.destroy(),
  };
}

async function* failing(name: string, chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  try {
    yield* chunks;
  } catch (error) {
    fail(name, error);
  }
}

function fail(name: string, error: unknown): never {
  const { code, message } = error as NodeJS.ErrnoException;
  const what = name === '-' ? 'standard input' : name;
  if (code === 'ENOENT') throw new Failure(`there is no file ${what}`);
  if (code?.startsWith('Z_')) throw new Failure(`${what} is not sound gzip: ${message}`);
  throw new Failure(`${what} cannot be read: ${message}`);
}
