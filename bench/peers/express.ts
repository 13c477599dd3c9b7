// Plain Express 5 + pg.
import { Ajv } from 'ajv';
import express, { type ErrorRequestHandler, type RequestHandler, type Response } from 'express';
import { bearerToken, findKey, isInt64, listItems, setQuantity } from './database.ts';
import { update } from './schemas.ts';

// The one-line way to make JSON.stringify print a bigint to the last digit, as an unquoted integer.
const { rawJSON } = JSON as unknown as { rawJSON: (text: string) => object };
Object.assign(BigInt.prototype, {
  toJSON(this: bigint) {
    return rawJSON(this.toString());
  },
});

const app = express();
app.disable('x-powered-by');
app.set('query parser', false);
app.set('etag', process.env['PEER_ETAG'] ? 'strong' : false);

const isUpdate = new Ajv().compile<{ quantity: number }>(update);

const failure = (response: Response, status: number, code: string, message: string) => {
  response.status(status).json({ code, message, status });
};

const admit =
  (scope: string): RequestHandler =>
  async (request, response, next) => {
    const token = bearerToken(request.headers.authorization);
    const key = token === undefined ? undefined : await findKey(token, scope);
    if (key === undefined) {
      failure(response, 401, 'unauthorized', 'A valid API key is required');
    } else if (!key.allowed) {
      failure(response, 403, 'forbidden', 'The key lacks the scope');
    } else {
      response.locals['keyId'] = key.id;
      next();
    }
  };

app.get('/v1/inventory', admit('inventory:read'), async (_request, response) => {
  response.json(await listItems());
});

app.patch(
  '/v1/inventory/:petId',
  admit('inventory:write'),
  express.json({ limit: 1024 }),
  async (request, response) => {
    const petId = String(request.params['petId']);
    const body: unknown = request.body;
    if (!isInt64(petId) || !isUpdate(body)) {
      failure(response, 400, 'validation_failed', 'petId must be an int64 and quantity an integer');
      return;
    }
    const changed = await setQuantity(petId, body.quantity, `key:${String(response.locals['keyId'])}`);
    if (changed === undefined) failure(response, 404, 'not_found', 'No such pet');
    else response.json(changed);
  },
);

const answerFailure: ErrorRequestHandler = (cause: { status?: number }, _request, response, next) => {
  if (response.headersSent) {
    next(cause);
    return;
  }
  const status = cause.status ?? 500;
  failure(response, status, status < 500 ? 'bad_request' : 'internal_error', 'Failed');
};
app.use(answerFailure);

app.listen(Number(process.env['PORT']), '127.0.0.1');
