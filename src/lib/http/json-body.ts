import { type ExecutionContext, createParamDecorator } from '@nestjs/common';
import type { Response } from 'express';
import { duplicateMember } from './json.ts';
import { httpError } from './http-error.ts';
import { type ApiRequest, contextOf } from './request-context.ts';
import { headerValues } from './request-headers.ts';
import { bodyValidation, safeName } from './validation.pipe.ts';

const ReadBody = createParamDecorator((_: unknown, context: ExecutionContext): Promise<unknown> => {
  const http = context.switchToHttp();
  return readJson(contextOf(http.getRequest<ApiRequest>()), http.getResponse<Response>());
});

/** The JSON body as an instance of the parameter's class; the service reads it after the guard. */
export const JsonBody = (): ParameterDecorator => ReadBody(bodyValidation);

const MAX_BODY_BYTES = 1_024;
export const BODY_TOO_LARGE = `The body is larger than ${MAX_BODY_BYTES} bytes.`;

const MEDIA_TYPE = /^application\/json[ \t]*(?:;|$)/i;
const CHARSET = /;[ \t]*charset[ \t]*=[ \t]*([^;]*)/gi;
const UTF8 = /^(?:utf-?8|"utf-?8")[ \t]*$/i;
const decoder = new TextDecoder('utf-8', { fatal: true }); // skips a byte order mark

const NOT_JSON = 'The body is not JSON. A shell may have removed its double quotes: send the JSON from a file.';

const badRequest = (message: string) => httpError('bad_request', message);
const unsupported = (message?: string) => httpError('unsupported_media_type', message);
const missing = () => badRequest('A JSON body is required.');
const tooLarge = () => httpError('payload_too_large', BODY_TOO_LARGE);

/** @throws HttpError `unsupported_media_type`, `payload_too_large`, `bad_request` where it is not JSON */
async function readJson(request: ApiRequest, response: Response): Promise<unknown> {
  validateHeaders(request);
  return request.body ?? parse(await readBytes(request, response)); // on another adapter, Nest's parser has read it
}

function validateHeaders(request: ApiRequest): void {
  const { headers } = request;
  const length = Number(headers['content-length'] ?? 0);
  const mediaType = headers['content-type'];
  if (headers['transfer-encoding'] === undefined && length === 0 && mediaType === undefined) throw missing();

  const isTwice = headerValues(request, 'content-type').length > 1; // `headers` has only the first
  if (isTwice || !isJson(mediaType ?? '')) throw unsupported();
  if (headers['content-encoding'] !== undefined) throw unsupported('The body must not have a Content-Encoding.');
  if (length > MAX_BODY_BYTES) throw tooLarge();
}

function isJson(mediaType: string): boolean {
  if (mediaType === 'application/json') return true; // as nearly everybody writes it
  const charsets = [...mediaType.matchAll(CHARSET)].map(([, charset]) => charset ?? '');
  return MEDIA_TYPE.test(mediaType) && charsets.every((charset) => UTF8.test(charset));
}

async function readBytes(request: ApiRequest, response: Response): Promise<Buffer> {
  if (request.received?.bodyFault) throw request.received.bodyFault;
  if (request.received?.awaitsContinue) response.writeContinue();
  if (request.complete) {
    if (request.readableLength > MAX_BODY_BYTES) throw tooLarge();
    return (request.read(request.readableLength) as Buffer | null) ?? Buffer.alloc(0);
  }
  const body = Buffer.alloc(MAX_BODY_BYTES);
  let length = 0;
  const from = performance.now();
  await new Promise<void>((resolve, reject) => {
    request
      .on('data', (chunk: Buffer) => {
        const takenBytes = chunk.copy(body, length);
        length += takenBytes;
        if (takenBytes < chunk.length) reject(tooLarge());
      })
      .once('end', resolve)
      .once('error', () => reject(request.received?.bodyFault ?? badRequest('The body did not arrive whole.')));
  });
  request.bodyMs = performance.now() - from;
  return body.subarray(0, length);
}

function parse(bytes: Buffer): unknown {
  const text = decode(bytes);
  if (text === '') throw missing();
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw badRequest(NOT_JSON);
  }
  const duplicate = duplicateMember(text);
  if (duplicate !== undefined) throw badRequest(`${safeName(duplicate)} is there more than once.`);
  return value;
}

function decode(bytes: Buffer): string {
  try {
    // No JSON has a NUL; ASCII in UTF-16 has one in each character.
    if (!bytes.includes(0)) return decoder.decode(bytes);
  } catch {}
  throw badRequest('The body is not UTF-8.');
}
