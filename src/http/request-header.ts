import { type ExecutionContext, createParamDecorator } from '@nestjs/common';
import type { Request } from 'express';

/**
 * Resolves when all is done that is ready to be done. Nest starts the pipes of a handler's parameters together, the last
 * one first; so that a client is told what is wrong with the path before the headers and the body, these wait for it.
 */
export function othersDone(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve));
}

/**
 * A parameter: the field of that name, given in lower case. Unlike Nest's `@Headers`, it takes pipes, and leaves the
 * document to what the handler says of itself.
 */
export const RequestHeader = createParamDecorator(async (name: string, context: ExecutionContext) => {
  const field = context.switchToHttp().getRequest<Request>().headers[name];
  if (field !== undefined) await othersDone();
  return field;
});
