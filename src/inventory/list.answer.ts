import type { Response } from 'express';
import type { ApiRequest } from '../http/api-request.js';
import { entityTags } from '../http/entity-tags.js';
import { CODINGS, type Coding, type StockList } from './stock-list.js';

/** Sends the list in the coding that the client prefers, or 304 when the client has it in any. */
export async function answerList(request: ApiRequest, response: Response, list: StockList): Promise<void> {
  const coding = preferredCoding(request);
  const headers = {
    ETag: `"${list.tag(coding)}"`,
    'Cache-Control': 'private, no-cache',
    Vary: 'Accept-Encoding',
    // A body that nobody asked for and that is still coming is not waited for.
    ...(request.complete ? {} : { Connection: 'close' }),
  };
  const known = request.headers['if-none-match'];
  if (known !== undefined && isKnown(list, known)) {
    response.writeHead(304, headers).end();
    return;
  }
  const bytes = coding === 'identity' ? list.bytes : await list.in(coding);
  response.writeHead(200, {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': bytes.length,
    ...(coding === 'identity' ? {} : { 'Content-Encoding': coding }),
    ...headers,
  });
  response.end(bytes);
}

function preferredCoding(request: ApiRequest): Coding {
  if (request.headers['accept-encoding'] === undefined) return 'identity';
  return (request.acceptsEncodings([...CODINGS]) || 'identity') as Coding;
}

/** By weak comparison, as RFC 9110 section 13.1.2 has it. */
function isKnown(list: StockList, field: string): boolean {
  const tags = entityTags(field);
  return tags === '*' || tags.some((tag) => list.hasTag(tag.opaque));
}
