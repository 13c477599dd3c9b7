import { type CanActivate, type ExecutionContext, Injectable, SetMetadata, applyDecorators } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { ApiExtension, ApiSecurity } from '@nestjs/swagger';
import type { Request, Response } from 'express';
import { Settings } from '../settings.js';
import { ApiError } from '../errors/api-error.js';
import { ERRORS } from '../errors/error-code.js';
import { inContext } from '../http/api-request.js';
import { BearerStrategy, REALM } from './bearer.strategy.js';
import { RateLimit } from './rate-limit.js';
import { type Scope, lacksScope } from './scopes.js';

export const API_KEY_SCHEME = 'apiKey';

const ACCESS = 'auth:access';
const PUBLIC = 'public';

/** Lets a request in when its bearer key is live and has the handler's scope; a handler that names none lets nobody in. */
@Injectable()
export class AuthGuard implements CanActivate {
  constructor(
    private readonly settings: Settings,
    private readonly bearer: BearerStrategy,
    private readonly reflector: Reflector,
    private readonly rateLimit: RateLimit,
  ) {}

  /** @throws ApiError `unauthorized`, `too_many_requests`, `forbidden`, `service_unavailable` */
  async canActivate(context: ExecutionContext): Promise<boolean> {
    const needed = this.reflector.get<Scope | typeof PUBLIC | undefined>(ACCESS, context.getHandler());
    if (needed === PUBLIC) return true;
    const http = context.switchToHttp();
    const request = inContext(http.getRequest<Request>());
    request.deadline = request.arrivedAt + this.settings.REQUEST_DEADLINE_MS;
    const { keyId = '', scopes, snapshot } = await this.bearer.authenticate(request, needed);
    request.snapshot = snapshot;
    this.rateLimit.charge(keyId, http.getResponse<Response>());
    if (needed === undefined) throw insufficient(ERRORS.forbidden.message);
    if (!scopes.includes(needed)) throw insufficient(lacksScope(needed), `, scope="${needed}"`);
    return true;
  }
}

function insufficient(message: string, scope = ''): ApiError {
  return new ApiError('forbidden', message, {
    'WWW-Authenticate': `Bearer realm="${REALM}", error="insufficient_scope"${scope}`,
  });
}

export function RequireScope(scope: Scope): MethodDecorator {
  return applyDecorators(
    SetMetadata(ACCESS, scope),
    ApiSecurity(API_KEY_SCHEME),
    ApiExtension('x-required-scope', scope),
  );
}

export function Public(): MethodDecorator {
  return SetMetadata(ACCESS, PUBLIC);
}
