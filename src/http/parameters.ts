import { type ExecutionContext, ValidationPipe, createParamDecorator } from '@nestjs/common';
import type { Response } from 'express';
import { ApiError } from '../errors/api-error.js';
import { type ApiRequest, headerValues, inContext } from './api-request.js';

/*
 * A client is told what is wrong with the path before the headers, and with these before the body. But Nest starts the
 * pipes of a handler's parameters together, the last parameter first. So a header lets one tick pass, and the body two.
 */
function nextTick(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve));
}

/** A parameter: the field of that name, given in lower case. Unlike Nest's `@Headers` it takes pipes, and documents nothing. */
export const RequestHeader = createParamDecorator(async (name: string, context: ExecutionContext) => {
  const field = context.switchToHttp().getRequest<ApiRequest>().headers[name];
  if (field !== undefined) await nextTick();
  return field;
});

const ReadBody = createParamDecorator(async (_: unknown, context: ExecutionContext): Promise<unknown> => {
  const http = context.switchToHttp();
  const response = http.getResponse<Response>();
  const request = inContext(http.getRequest<ApiRequest>());
  await nextTick();
  await nextTick();
  return response.headersSent ? undefined : readJson(request, response); // a pipe may have refused the request by now
});

/** A parameter of the class that it is declared with: the JSON body, understood whole or refused. */
export const JsonBody = (): ParameterDecorator => ReadBody(validation);

/** Takes an object that has what the class declares, and nothing else. */
export const validation = new ValidationPipe({
  whitelist: true,
  forbidNonWhitelisted: true,
  transform: true,
  stopAtFirstError: true,
  validateCustomDecorators: true,
  exceptionFactory(faults) {
    const unknown = faults.find(({ constraints }) => constraints?.['whitelistValidation'] !== undefined);
    if (unknown) return notAMember(unknown.property);
    const [rule = ''] = faults.flatMap(({ constraints }) => Object.values(constraints ?? {}));
    return new ApiError('validation_failed', `${rule}.`);
  },
});

/** The largest body. The only one that version 1 takes has some 20 bytes. */
const MAX_BODY_BYTES = 1_024;
export const BODY_TOO_LARGE = `The body is larger than ${MAX_BODY_BYTES} bytes.`;

const MEDIA_TYPE = /^application\/json[ \t]*(?:;|$)/i;
const CHARSET = /;[ \t]*charset[ \t]*=[ \t]*([^;]*)/gi;
const UTF8 = /^(?:utf-8|"utf-8")[ \t]*$/i;
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

const missing = () => new ApiError('bad_request', 'A JSON body is required.');
const tooLarge = () => new ApiError('payload_too_large', BODY_TOO_LARGE);
const notAMember = (name: string) =>
  new ApiError('validation_failed', `${safeName(name)} is not a member of the body.`);

/** Names that every object inherits. The pipe drops such members in silence, so they are refused before it. */
const isInherited = (name: string) => name === 'prototype' || name in Object.prototype;

/** @throws ApiError `unsupported_media_type`, `payload_too_large`, `bad_request` (not JSON), `validation_failed` */
export async function readJson(request: ApiRequest, response: Response): Promise<unknown> {
  validateHeaders(request);
  // Where a body parser is in front of the controller, as Nest's is by default, nothing is left to be read.
  if (request.body === undefined && request.awaitsContinue) response.writeContinue();
  const value: unknown = request.body ?? parse(await readBytes(request));
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ApiError('validation_failed', 'The body must be a JSON object.');
  }
  const inherited = Object.keys(value).find(isInherited);
  if (inherited !== undefined) throw notAMember(inherited);
  return value;
}

function validateHeaders(request: ApiRequest): void {
  const { headers } = request;
  const length = Number(headers['content-length'] ?? 0);
  const mediaType = headers['content-type'];
  if (headers['transfer-encoding'] === undefined && length === 0 && mediaType === undefined) throw missing();

  // Node.js itself keeps the first and drops the other.
  if (headerValues(request, 'content-type').length > 1 || !isJson(mediaType ?? '')) {
    throw new ApiError('unsupported_media_type');
  }
  if (headers['content-encoding'] !== undefined) {
    throw new ApiError('unsupported_media_type', 'The body must not have a Content-Encoding.');
  }
  if (length > MAX_BODY_BYTES) throw tooLarge();
}

function isJson(mediaType: string): boolean {
  if (mediaType === 'application/json') return true; // as nearly everybody writes it
  const charsets = [...mediaType.matchAll(CHARSET)].map(([, charset]) => charset ?? '');
  return MEDIA_TYPE.test(mediaType) && charsets.every((charset) => UTF8.test(charset));
}

async function readBytes(request: ApiRequest): Promise<Buffer> {
  if (request.bodyFault) throw request.bodyFault;
  // Most bodies come with their head, and are there before the key is found good.
  if (request.complete) {
    if (request.readableLength > MAX_BODY_BYTES) throw tooLarge();
    return (request.read(request.readableLength) as Buffer | null) ?? Buffer.alloc(0);
  }
  const chunks: Buffer[] = [];
  let length = 0;
  const from = performance.now();
  await new Promise<void>((resolve, reject) => {
    request
      .on('data', (chunk: Buffer) => {
        length += chunk.length;
        if (length > MAX_BODY_BYTES) reject(tooLarge());
        else chunks.push(chunk);
      })
      .once('end', resolve)
      .once('error', () => {
        reject(request.bodyFault ?? new ApiError('bad_request', 'The body did not arrive whole.'));
      });
  });
  request.deadline += performance.now() - from; // the client's time is not what the request waits for the database
  return Buffer.concat(chunks);
}

function parse(bytes: Buffer): unknown {
  if (bytes.length === 0) throw missing();
  let text: string;
  let value: unknown;
  try {
    text = decoder.decode(bytes);
    value = JSON.parse(text);
  } catch (error) {
    throw new ApiError('bad_request', `The body is not ${error instanceof SyntaxError ? 'JSON' : 'UTF-8'}.`);
  }
  const duplicate = duplicateMember(text);
  if (duplicate !== undefined) throw new ApiError('bad_request', `${safeName(duplicate)} is there more than once.`);
  return value;
}

/** The first member that an object of this valid JSON text names twice. */
function duplicateMember(text: string): string | undefined {
  if (text.indexOf(':') === text.lastIndexOf(':')) return undefined; // one member at most
  const open: Set<string>[] = [];
  for (const [token, name, colon] of text.matchAll(/("(?:[^"\\]|\\.)*")\s*(:?)|[{}[\]]/g)) {
    if (token === '{' || token === '[') open.push(new Set());
    else if (token === '}' || token === ']') open.pop();
    else if (colon && name !== undefined) {
      const member = JSON.parse(name) as string;
      if (open.at(-1)?.has(member)) return member;
      open.at(-1)?.add(member);
    }
  }
  return undefined;
}

/** A member's name when it is an ordinary one; input is not echoed. */
function safeName(name: string): string {
  return /^[A-Za-z_$][\w$.-]{0,30}$/.test(name) ? name : 'A member';
}
