import type { Response } from 'express';
import type { ApiRequest } from '../http/api-request.js';
import { entityTags } from '../http/entity-tags.js';
import type { ListReaders } from './list.readers.js';
import { CODINGS, type Coding, type StockList } from './stock-list.js';

/** Sends the list in the coding that the client prefers, or 304 when the client has it in any. */
export async function answerList(
  request: ApiRequest,
  response: Response,
  list: StockList,
  readers: ListReaders,
): Promise<void> {
  const coding = preferredCoding(request.headers['accept-encoding']);
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
  const body = coding === 'identity' ? list.plain : await list.in(coding);
  response.writeHead(200, {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': body.length,
    ...(coding === 'identity' ? {} : { 'Content-Encoding': coding }),
    ...headers,
  });
  readers.send(response, body);
}

/**
 * By the weights of `Accept-Encoding` (RFC 9110 section 12.5.3); of codings that weigh the same, the first of CODINGS.
 * The list as it is always serves.
 */
export function preferredCoding(accepted: string | undefined): Coding {
  if (accepted === undefined) return 'identity';
  const weights = new Map<string, number>();
  for (const element of accepted.toLowerCase().split(',')) {
    const [coding = '', ...parameters] = element.split(';').map((part) => part.trim());
    const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2) ?? '1';
    weights.set(coding, Number(weight) || 0);
  }
  let preferred: Coding = 'identity';
  let heaviest = 0;
  for (const coding of CODINGS) {
    const weight = weights.get(coding) ?? weights.get('*') ?? 0;
    if (weight > heaviest) [preferred, heaviest] = [coding, weight];
  }
  return preferred;
}

/** By weak comparison, as RFC 9110 section 13.1.2 has it. */
function isKnown(list: StockList, field: string): boolean {
  const tags = entityTags(field);
  return tags === '*' || tags.some((tag) => list.hasTag(tag.opaque));
}
