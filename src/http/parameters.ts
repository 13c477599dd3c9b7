import { type ExecutionContext, createParamDecorator } from '@nestjs/common';
import type { Response } from 'express';
import { type ApiRequest, inContext } from './api-request.js';
import { readJson, validation } from './json-body.js';

/*
 * A client is told what is wrong with the path before the headers, and with these before the body. But Nest starts the
 * pipes of a handler's parameters together, the last parameter first. So a header lets one tick pass, and the body two.
 */
function nextTick(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve));
}

/**
 * A parameter: the field of that name, given in lower case. Unlike Nest's `@Headers`, it takes pipes, and leaves the
 * document to what the handler says of itself.
 */
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

/**
 * A parameter of the class that it is declared with: the JSON body, read when the guard has let the request in, and
 * understood whole or refused.
 *
 * @throws ApiError as {@link readJson}
 */
export const JsonBody = (): ParameterDecorator => ReadBody(validation);
