import { type ExecutionContext, UseGuards, applyDecorators } from '@nestjs/common';
import { ApiExtension, ApiOperation } from '@nestjs/swagger';
import type { Response } from 'express';

/** Section 9 of the specification: an operation without this marker is stable. */
export function Stability(level: 'experimental' | 'beta'): MethodDecorator {
  return ApiExtension('x-stability', level);
}

/**
 * Marks an operation as deprecated, in the document and by headers on its answers: `Deprecation` (RFC 9745) and,
 * when it has an end, `Sunset` (RFC 8594). Written below `@RequireScope`, it speaks on refusals as well.
 *
 * @param since when it was deprecated
 * @param sunset from when on it may no longer be there
 */
export function Deprecated({ since, sunset }: { since: Date; sunset?: Date }): MethodDecorator {
  const headers = new Map([['Deprecation', `@${Math.floor(since.getTime() / 1_000)}`]]);
  if (sunset) headers.set('Sunset', sunset.toUTCString());
  const announce = {
    canActivate(context: ExecutionContext): boolean {
      context.switchToHttp().getResponse<Response>().setHeaders(headers);
      return true;
    },
  };
  return applyDecorators(
    ApiOperation({ deprecated: true }),
    UseGuards(announce),
    ...(sunset ? [ApiExtension('x-sunset', sunset.toISOString().slice(0, 10))] : []),
  );
}
