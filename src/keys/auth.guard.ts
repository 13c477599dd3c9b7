import { type CanActivate, type ExecutionContext, Injectable, SetMetadata, applyDecorators } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { ApiExtension, ApiSecurity } from '@nestjs/swagger';
import type { Request, Response } from 'express';
import { Settings } from '../settings.ts';
import { ApiError } from '../errors/api-error.ts';
import type { Access } from './access.ts';
import { contextOf } from '../lib/http/index.ts';
import { BearerStrategy, challenge } from './bearer.strategy.ts';
import { RateLimit } from './rate-limit.ts';
import { type Scope, lacksScope } from './scopes.ts';

export const API_KEY_SCHEME = 'apiKey';

const ACCESS = 'auth:access';
const PUBLIC = 'public';
const INSUFFICIENT = ', error="insufficient_scope"';

/** Lets a request in if its key is live and has the scope of the handler. A handler without a scope lets nobody in. */
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
    const request = contextOf<Access>(http.getRequest<Request>());
    const deadline = request.startedAt + this.settings.REQUEST_DEADLINE_MS;
    const key = await this.bearer.authenticate(request, deadline, needed);
    const access: Access = { ...key, deadline, isAuthorized: false };
    request.access = access;
    const { failure, keyId, scopes } = key;
    if (failure !== undefined) {
      throw new ApiError('unauthorized', undefined, challenge(failure === 'no_key' ? '' : ', error="invalid_token"'));
    }
    this.rateLimit.charge(keyId ?? '', http.getResponse<Response>());
    if (needed === undefined) throw new ApiError('forbidden', undefined, challenge(INSUFFICIENT));
    if (!scopes.includes(needed)) {
      throw new ApiError('forbidden', lacksScope(needed), challenge(`${INSUFFICIENT}, scope="${needed}"`));
    }
    access.isAuthorized = true;
    return true;
  }
}

export function RequireScope(scope: Scope): MethodDecorator {
  const docs = [ApiSecurity(API_KEY_SCHEME), ApiExtension('x-required-scope', scope)];
  return applyDecorators(SetMetadata(ACCESS, scope), ...docs);
}

export const Public = (): MethodDecorator => SetMetadata(ACCESS, PUBLIC);
