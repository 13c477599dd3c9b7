import { Injectable } from '@nestjs/common';
import type { Response } from 'express';
import { Environment } from '../environment.js';

/** Of readers of longer lists it is watched whether they move. */
const LONG_LIST_BYTES = 2 ** 20;

/** Lists that are out of date, and kept only because someone still reads them, may take this much in all, or what one list takes. */
const MOST_OUTDATED_BYTES = 2 ** 23;

/** Beyond that, readers are cut whose connection took nothing for this long. */
const STANDS_STILL_MS = 250;

interface Reader {
  readonly bytes: Buffer;
  readonly response: Response;
  /** When it was last seen to have stood still, and since when it has; on the clock of `performance.now()`. */
  stillAt: number;
  stillSince: number;
}

/**
 * Sends bodies that many answers share. All readers of one list share its memory, but each list that a reader stands
 * still on stays in memory with it; the socket's own timeout would let them pile up.
 */
@Injectable()
export class ListReaders {
  readonly #readers = new Set<Reader>();

  constructor(private readonly environment: Environment) {}

  /** Ends the response with the body; its head is written already. */
  send(response: Response, body: Buffer | string): void {
    response.end(body, 'latin1');
    if (typeof body === 'string' || body.length <= LONG_LIST_BYTES || response.req.method === 'HEAD') return;
    if (response.destroyed) return; // it left while the list was read, and would never be told to have closed
    const reader: Reader = { bytes: body, response, stillAt: 0, stillSince: 0 };
    this.#readers.add(reader);
    response.once('close', () => this.#readers.delete(reader));
    // Node.js tells when the connection has taken nothing for so long, and is asked again each time.
    response.setTimeout(STANDS_STILL_MS, () => {
      this.#standsStill(reader);
    });
    // Before Node.js itself sets the time-out of an idle connection; a pipelined answer may follow instead.
    response.prependOnceListener('finish', () => response.socket?.setTimeout(this.environment.SOCKET_TIMEOUT_MS));
    this.#cutStalled(body);
  }

  #standsStill(reader: Reader): void {
    const now = performance.now();
    if (!isStill(reader, now)) reader.stillSince = now - STANDS_STILL_MS;
    reader.stillAt = now;
    if (now - reader.stillSince >= this.environment.SOCKET_TIMEOUT_MS) reader.response.destroy();
    else reader.response.setTimeout(STANDS_STILL_MS);
  }

  /** Those who have stood still the longest go first, and no more of them than the bound asks for. */
  #cutStalled(current: Buffer): void {
    const now = performance.now();
    for (const reader of this.#readers) if (reader.response.destroyed) this.#readers.delete(reader);
    const outdated = [...this.#readers].filter(({ bytes }) => bytes !== current);
    const readersOf = Map.groupBy(outdated, ({ bytes }) => bytes);
    let keptBytes = [...readersOf.keys()].reduce((sum, { length }) => sum + length, 0);
    const stalled = outdated.filter((reader) => isStill(reader, now));
    for (const reader of stalled.toSorted((one, other) => one.stillSince - other.stillSince)) {
      if (keptBytes <= Math.max(MOST_OUTDATED_BYTES, current.length)) return;
      reader.response.destroy();
      const others = readersOf.get(reader.bytes)?.filter((other) => other !== reader) ?? [];
      readersOf.set(reader.bytes, others);
      if (others.length === 0) keptBytes -= reader.bytes.length;
    }
  }
}

/** One that moved would not have been seen standing still again so soon: Node.js lets two intervals pass then. */
function isStill(reader: Reader, now: number): boolean {
  return now - reader.stillAt < 2 * STANDS_STILL_MS;
}
