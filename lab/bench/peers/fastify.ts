// Fastify 5 + pg: a key from the database for each request, complete lists, durable updates with a history row.
import Fastify, { type FastifyReply, type FastifyRequest } from 'fastify';
import { randomUUID } from 'node:crypto';
import { bearerToken, findKey, isInt64, listItems, setQuantity } from './database.ts';
import { error, item, itemList, update } from './schemas.ts';

declare module 'fastify' {
  interface FastifyRequest {
    keyId: string;
  }
}

const app = Fastify({
  logger: false,
  genReqId: () => randomUUID(),
  ajv: { customOptions: { coerceTypes: false, removeAdditional: false } },
});
app.decorateRequest('keyId', '');

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
    const key = token === undefined ? undefined : await findKey(token, scope);
    if (key === undefined) return failure(reply, 401, 'unauthorized', 'A valid API key is required');
    if (!key.allowed) return failure(reply, 403, 'forbidden', 'The key lacks the scope');
    request.keyId = key.id;
  };
}

app.get(
  '/v1/inventory',
  { onRequest: admit('inventory:read'), schema: { response: { 200: itemList, '4xx': error } } },
  () => listItems(),
);

app.patch<{ Params: { petId: string }; Body: { quantity: number } }>(
  '/v1/inventory/:petId',
  { onRequest: admit('inventory:write'), schema: { body: update, response: { 200: item, '4xx': error } } },
  async (request, reply) => {
    const { petId } = request.params;
    if (!isInt64(petId)) return failure(reply, 400, 'validation_failed', 'petId must be an int64');
    const author = { changedBy: `key:${request.keyId}`, requestId: request.id };
    const changed = await setQuantity(petId, request.body.quantity, author);
    return changed ?? failure(reply, 404, 'not_found', 'No such pet');
  },
);

await app.listen({ host: '127.0.0.1', port: Number(process.env['PORT']) });
