import type { IncomingMessage } from 'node:http';
import { type ExecutionContext, createParamDecorator } from '@nestjs/common';
import type { ApiRequest } from './request-context.ts';

/** A header by its name in lower case. Unlike Nest's `@Headers` it takes pipes and adds nothing to the document. */
export const RequestHeader = createParamDecorator(
  (name: string, context: ExecutionContext) => context.switchToHttp().getRequest<ApiRequest>().headers[name],
);

/** All values of a header; `headers` drops or joins duplicates. */
export function headerValues({ rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>, name: string): string[] {
  const values: string[] = [];
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const present = rawHeaders[at] ?? '';
    if (present.length === name.length && present.toLowerCase() === name) values.push(rawHeaders[at + 1] ?? '');
  }
  return values;
}
