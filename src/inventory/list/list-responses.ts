import { Injectable } from '@nestjs/common';
import type { Response } from 'express';
import { ApiError } from '../../errors/api-error.ts';
import { type ApiRequest, entityTags, writeHead } from '../../lib/http/index.ts';
import { ifMatchTags } from '../entity-tags.ts';
import { type Body, CODINGS, type Coding, type StockList } from './stock-list.ts';

/** Most bytes of all outdated lists that slow readers keep in memory; one list alone may have more. */
const MOST_OUTDATED_BYTES = 2 ** 25;

/** Pieces compressed at once; one list alone may have more. Beyond that, lists go out uncompressed, to save memory. */
const MOST_DEFLATING = 64;

/** Sends lists. Bounds the memory of outdated lists with slow readers, and of compressing. */
@Injectable()
export class ListResponses {
  /** Responses that the network has not taken yet, with their lists, the oldest first. */
  readonly #unsent = new Map<Response, StockList>();
  #deflating = 0;

  /**
   * In the coding that the client prefers, or 304 when the client has the list in any.
   *
   * @throws ApiError `precondition_failed` when the client expects another list
   */
  async send(request: ApiRequest, response: Response, list: StockList): Promise<void> {
    const preferred = preferredCoding(request);
    const headers = (coding: Coding) => ({
      ETag: `"${list.tag(coding)}"`,
      'Cache-Control': 'private, no-cache',
      Vary: 'Accept-Encoding',
    });
    const expected = request.headers['if-match']; // comes before If-None-Match (RFC 9110 section 13.2.2)
    if (expected !== undefined && !isExpected(list, expected)) {
      throw new ApiError('precondition_failed', undefined, { ETag: headers(preferred).ETag });
    }
    const known = request.headers['if-none-match'];
    if (known !== undefined && isKnown(list, known)) {
      writeHead(response, 304, headers(preferred)).end();
      return;
    }
    const pieces = list.piecesToDeflate;
    const mayCompress = pieces === 0 || this.#deflating === 0 || this.#deflating + pieces <= MOST_DEFLATING;
    const coding = preferred === 'gzip' && mayCompress ? 'gzip' : 'identity';
    const body = coding === 'identity' ? list.plain : await this.#compress(list, pieces);
    writeHead(response, 200, {
      'Content-Type': 'application/json; charset=utf-8',
      'Content-Length': body.length,
      ...(coding === 'identity' ? {} : { 'Content-Encoding': coding }),
      ...headers(coding),
    });
    end(response, body);
    if (response.socket?.writableLength) this.#watch(response, list);
  }

  async #compress(list: StockList, pieces: number): Promise<Body> {
    this.#deflating += pieces;
    try {
      return await list.gzip();
    } finally {
      this.#deflating -= pieces;
    }
  }

  #watch(response: Response, list: StockList): void {
    this.#unsent.set(response, list);
    response.once('close', () => this.#unsent.delete(response));
    const bound = Math.max(MOST_OUTDATED_BYTES, list.plain.length);
    let cutOff: StockList | undefined; // frees memory only without its other readers, so they follow without a new count
    for (const [reader, read] of this.#unsent) {
      if (read !== cutOff && this.#outdatedBytes(list) <= bound) return;
      cutOff = read;
      reader.destroy();
      this.#unsent.delete(reader);
    }
  }

  /** An upper bound: a shared piece counts once, for the newest list that has it. */
  #outdatedBytes(present: StockList): number {
    const lists = [...new Set(this.#unsent.values())];
    return lists.reduce((sum, list, at) => sum + list.bytesNotIn(lists[at + 1] ?? present), 0);
  }
}

/** The coding that the client prefers; of equal ones, the one that it names first. Uncompressed if it takes neither. */
function preferredCoding(request: ApiRequest): Coding {
  if (request.headers['accept-encoding'] === undefined) return 'identity';
  return (request.acceptsEncodings([...CODINGS]) || 'identity') as Coding;
}

/** Ends the response with the body. Node.js sends the chunks of one turn together with the head. */
function end(response: Response, { chunks }: Body): void {
  for (const chunk of chunks.slice(0, -1)) response.write(chunk);
  response.end(chunks.at(-1), 'latin1');
}

/** By strong comparison, as RFC 9110 section 13.1.1 has it. */
function isExpected(list: StockList, field: string): boolean {
  const tags = ifMatchTags(field);
  return tags === '*' || tags.some((tag) => !tag.weak && list.hasTag(tag.opaque));
}

/** By weak comparison, as RFC 9110 section 13.1.2 has it. A malformed field is ignored. */
function isKnown(list: StockList, field: string): boolean {
  const tags = entityTags(field);
  return tags === '*' || (tags?.some((tag) => list.hasTag(tag.opaque)) ?? false);
}
