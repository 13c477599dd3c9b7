// Fastify 5 + pg. KEY_IN_MEMORY makes it the weaker promise: one key, compared in memory, and no history. KEEPS_LIST keeps the
// list's bytes until this process writes, so it does not show what others write.
import etag from '@fastify/etag';
import Fastify, { type FastifyReply, type FastifyRequest } from 'fastify';
import { timingSafeEqual } from 'node:crypto';
import {
  bearerToken,
  findKey,
  isInt64,
  listItems,
  setQuantity,
  setQuantityWithoutHistory,
  sha256,
} from './database.ts';
import { error, item, itemList, update } from './schemas.ts';

declare module 'fastify' {
  interface FastifyRequest {
    keyId: string;
  }
}

const keyInMemory = process.env['KEY_IN_MEMORY'] ? sha256(process.env['KEY_IN_MEMORY']) : undefined;
let kept: Promise<Buffer> | undefined;

const app = Fastify({ logger: false, ajv: { customOptions: { coerceTypes: false, removeAdditional: false } } });
app.decorateRequest('keyId', '');
if (process.env['PEER_ETAG']) await app.register(etag);

const failure = (reply: FastifyReply, status: number, code: string, message: string) =>
  reply.code(status).send({ code, message, status });

app.setErrorHandler<Error & { statusCode?: number }>(({ statusCode = 500, message }, _request, reply) =>
  statusCode < 500
    ? failure(reply, statusCode, 'bad_request', message)
    : failure(reply, 500, 'internal_error', 'Failed'),
);

function admit(scope: string) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    const token = bearerToken(request.headers.authorization);
    if (keyInMemory) {
      const isGood = token !== undefined && timingSafeEqual(sha256(token), keyInMemory);
      return isGood ? undefined : failure(reply, 401, 'unauthorized', 'A valid API key is required');
    }
    const key = token === undefined ? undefined : await findKey(token, scope);
    if (key === undefined) return failure(reply, 401, 'unauthorized', 'A valid API key is required');
    if (!key.allowed) return failure(reply, 403, 'forbidden', 'The key lacks the scope');
    request.keyId = key.id;
  };
}

app.get(
  '/v1/inventory',
  { onRequest: admit('inventory:read'), schema: { response: { 200: itemList, '4xx': error } } },
  (_request, reply) => {
    if (!process.env['KEEPS_LIST']) return listItems();
    reply.type('application/json; charset=utf-8');
    kept ??= listItems().then((items) =>
      // its types know of objects only
      Buffer.from(reply.compileSerializationSchema(itemList)(items as unknown as Record<string, unknown>)),
    );
    return kept;
  },
);

app.patch<{ Params: { petId: string }; Body: { quantity: number } }>(
  '/v1/inventory/:petId',
  { onRequest: admit('inventory:write'), schema: { body: update, response: { 200: item, '4xx': error } } },
  async (request, reply) => {
    const { petId } = request.params;
    if (!isInt64(petId)) return failure(reply, 400, 'validation_failed', 'petId must be an int64');
    const changed = keyInMemory
      ? await setQuantityWithoutHistory(petId, request.body.quantity)
      : await setQuantity(petId, request.body.quantity, `key:${request.keyId}`);
    kept = undefined;
    return changed ?? failure(reply, 404, 'not_found', 'No such pet');
  },
);

await app.listen({ host: '127.0.0.1', port: Number(process.env['PORT']) });
