import { Injectable } from '@nestjs/common';
import type { Response } from 'express';

/** Longer lists go out in pieces, so that it can be seen whether their reader moves. */
const LONG_LIST_BYTES = 2 ** 20;
const PIECE_BYTES = 2 ** 20;

/** Lists that are out of date, and kept only because someone still reads them, may take this much in all. */
const MOST_OUTDATED_BYTES = 2 ** 23;
/** Beyond that, readers who have taken no piece for this long are cut. */
const STANDS_STILL_AFTER_MS = 750;

interface Reader {
  readonly bytes: Buffer;
  readonly response: Response;
  /** When the last piece was taken, on the clock of `performance.now()`. */
  movedAt: number;
}

/**
 * Sends bodies that many answers share. All readers of one list share its memory, but each list that a reader stands
 * still on stays in memory with it; the socket's own timeout would let them pile up.
 */
@Injectable()
export class ListReaders {
  /** In the order in which they came. */
  readonly #readers = new Set<Reader>();

  /** Ends the response with the body; its head is written already. */
  send(response: Response, body: Buffer | string): void {
    if (typeof body === 'string' || body.length <= LONG_LIST_BYTES || response.req.method === 'HEAD') {
      response.end(body, 'latin1');
      return;
    }
    const reader = { bytes: body, response, movedAt: performance.now() };
    this.#readers.add(reader);
    response.once('close', () => this.#readers.delete(reader));
    sendPieces(reader);
    this.#cutStalled(body);
  }

  /** Those who have stood still the longest go first, and no more of them than the bound asks for. */
  #cutStalled(current: Buffer): void {
    const stalledSince = performance.now() - STANDS_STILL_AFTER_MS;
    const outdated = [...this.#readers].filter(({ bytes }) => bytes !== current);
    const readersOf = Map.groupBy(outdated, ({ bytes }) => bytes);
    let keptBytes = [...readersOf.keys()].reduce((sum, { length }) => sum + length, 0);
    for (const reader of outdated.toSorted((one, other) => one.movedAt - other.movedAt)) {
      if (keptBytes <= MOST_OUTDATED_BYTES || reader.movedAt > stalledSince) return;
      reader.response.destroy();
      const others = readersOf.get(reader.bytes)?.filter((other) => other !== reader) ?? [];
      readersOf.set(reader.bytes, others);
      if (others.length === 0) keptBytes -= reader.bytes.length;
    }
  }
}

function sendPieces(reader: Reader): void {
  const { bytes, response } = reader;
  let sent = 0;
  const send = () => {
    reader.movedAt = performance.now();
    while (sent < bytes.length) {
      const piece = bytes.subarray(sent, (sent += PIECE_BYTES));
      if (!response.write(piece)) {
        response.once('drain', send);
        return;
      }
    }
    response.end();
  };
  send();
}
