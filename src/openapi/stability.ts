import { type ArgumentsHost, UseFilters, UseGuards, applyDecorators } from '@nestjs/common';
import { ApiExtension, ApiOperation } from '@nestjs/swagger';
import type { Response } from 'express';
import { ErrorFilter } from '../errors/error.filter.js';

/** Section 9 of the specification: an operation without this marker is stable. */
export function Stability(level: 'experimental' | 'beta'): MethodDecorator {
  return ApiExtension('x-stability', level);
}

/**
 * Marks an operation as deprecated, in the document and by headers on its answers: `Deprecation` (RFC 9745) and,
 * when it has an end, `Sunset` (RFC 8594). Refusals have them as well, those of the guard included, which runs before.
 *
 * @param since when it was deprecated
 * @param sunset from when on it may no longer be there
 */
export function Deprecated({ since, sunset }: { since: Date; sunset?: Date }): MethodDecorator {
  const headers = new Map([['Deprecation', `@${Math.floor(since.getTime() / 1_000)}`]]);
  if (sunset) headers.set('Sunset', sunset.toUTCString());
  const announce = (host: ArgumentsHost) => host.switchToHttp().getResponse<Response>().setHeaders(headers);
  const errors = new ErrorFilter();
  return applyDecorators(
    ApiOperation({ deprecated: true }),
    UseGuards({ canActivate: (context) => Boolean(announce(context)) }),
    UseFilters({
      catch(thrown, host) {
        announce(host);
        errors.catch(thrown, host);
      },
    }),
    ...(sunset ? [ApiExtension('x-sunset', sunset.toISOString().slice(0, 10))] : []),
  );
}
