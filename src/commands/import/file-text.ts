import { createReadStream } from 'node:fs';
import { pipeline } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { Failure } from '../../lib/postgres/index.ts';
import { notStock } from './problems.ts';

/**
 * The text of a file, or of standard input if the name is `-`; unpacks `*.gz`.
 * @throws Failure when it cannot be read
 */
export async function* readText(name: string): AsyncGenerator<string> {
  const source = name === '-' ? process.stdin : createReadStream(name);
  const isPacked = name.toLowerCase().endsWith('.gz');
  const content: AsyncIterable<Buffer> = isPacked ? pipeline(source, createGunzip(), () => undefined) : source;
  let decoder: TextDecoder | undefined;
  try {
    for await (const chunk of content) {
      decoder ??= new TextDecoder(encodingOf(chunk[0]), { fatal: true }); // takes a byte order mark away
      yield decoder.decode(chunk, { stream: true });
    }
    if (decoder) yield decoder.decode();
  } catch (error) {
    const { message, code = '' } = error as NodeJS.ErrnoException;
    if (code === 'ERR_ENCODING_INVALID_ENCODED_DATA') throw notStock('it is not text in UTF-8');
    if (code.startsWith('Z_')) throw notStock('its name ends in .gz, but it is no gzip data, or not all of it');
    throw new Failure(`${name === '-' ? 'standard input' : name} cannot be read: ${message}`);
  }
}

/** By the byte order mark of UTF-16 ("Unicode Text" of Excel). No text in UTF-8 has a byte like these. */
function encodingOf(first: number | undefined): 'utf-8' | 'utf-16le' | 'utf-16be' {
  return first === 0xff ? 'utf-16le' : first === 0xfe ? 'utf-16be' : 'utf-8';
}
