// Fastify 5 + pg, with the key looked up in the statement that does the work: a trip less than people usually make.
import Fastify, { type FastifyReply, type FastifyRequest } from 'fastify';
import { bearerToken, findKey, isInt64, listItemsWithKey, setQuantityWithKey } from './database.ts';
import { error, item, itemList, update } from './schemas.ts';

const app = Fastify({ logger: false, ajv: { customOptions: { coerceTypes: false, removeAdditional: false } } });

const failure = (reply: FastifyReply, status: number, code: string, message: string) =>
  reply.code(status).send({ code, message, status });
const unauthorized = (reply: FastifyReply) => failure(reply, 401, 'unauthorized', 'A valid API key is required');
const forbidden = (reply: FastifyReply) => failure(reply, 403, 'forbidden', 'The key lacks the scope');
const tokenOf = (request: FastifyRequest) => bearerToken(request.headers.authorization) ?? '';

/** A request that is refused before its statement is sent still has its key looked up first. */
async function refuse(request: FastifyRequest, reply: FastifyReply, message: string) {
  const key = await findKey(tokenOf(request), 'inventory:write');
  if (key === undefined) return unauthorized(reply);
  return key.allowed ? failure(reply, 400, 'bad_request', message) : forbidden(reply);
}

app.setErrorHandler<Error & { statusCode?: number }>((cause, request, reply) =>
  (cause.statusCode ?? 500) < 500
    ? refuse(request, reply, cause.message)
    : failure(reply, 500, 'internal_error', 'Failed'),
);

app.get('/v1/inventory', { schema: { response: { 200: itemList, '4xx': error } } }, async (request, reply) => {
  const rows = await listItemsWithKey(tokenOf(request));
  const [first] = rows;
  if (first === undefined) return unauthorized(reply);
  if (!first.allowed) return forbidden(reply);
  return first.petId === null ? [] : rows;
});

app.patch<{ Params: { petId: string }; Body: { quantity: number } }>(
  '/v1/inventory/:petId',
  { schema: { body: update, response: { 200: item, '4xx': error } } },
  async (request, reply) => {
    const { petId } = request.params;
    if (!isInt64(petId)) return refuse(request, reply, 'petId must be an int64');
    const changed = await setQuantityWithKey(tokenOf(request), petId, request.body.quantity);
    if (changed === undefined) return unauthorized(reply);
    if (!changed.allowed) return forbidden(reply);
    return changed.petId === null ? failure(reply, 404, 'not_found', 'No such pet') : changed;
  },
);

await app.listen({ host: '127.0.0.1', port: Number(process.env['PORT']) });
