import {
  type CanActivate,
  type ExecutionContext,
  Injectable,
  SetMetadata,
  UseGuards,
  applyDecorators,
} from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import type { Response } from 'express';
import { ApiExtension, ApiSecurity } from '@nestjs/swagger';
import { ApiError } from '../errors/api-error.js';
import type { ApiRequest } from '../http/api-request.js';
import { BearerStrategy, NotAdmitted } from './bearer.strategy.js';
import { RateLimit } from './rate-limit.js';
import type { Scope } from './scopes.js';

/** Name of the security scheme in the OpenAPI document. */
export const API_KEY_SCHEME = 'apiKey';

const SCOPE = 'auth:scope';
const CHALLENGE = 'Bearer realm="inventory"';

/**
 * Lets a request in when its bearer key is live and has the handler's scope.
 *
 * @throws ApiError `unauthorized` with a challenge (RFC 6750 section 3), `too_many_requests`, `forbidden`,
 * `service_unavailable`
 */
@Injectable()
export class AuthGuard implements CanActivate {
  constructor(
    private readonly bearer: BearerStrategy,
    private readonly reflector: Reflector,
    private readonly rateLimit: RateLimit,
  ) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const request = context.switchToHttp().getRequest<ApiRequest>();
    const scope = this.reflector.get<Scope | undefined>(SCOPE, context.getHandler());
    const { verdict, moment } = await this.#admit(request);
    if (verdict.state !== 'live') throw new Error('only live keys are admitted');
    request.keyId = verdict.keyId;
    request.moment = moment;
    this.rateLimit.charge(verdict.keyId, context.switchToHttp().getResponse<Response>());
    if (scope === undefined || !verdict.scopes.includes(scope)) {
      const challenge = `${CHALLENGE}, error="insufficient_scope"${scope ? `, scope="${scope}"` : ''}`;
      throw new ApiError('forbidden', `The API key lacks the scope ${scope ?? 'for this'}.`, {
        'WWW-Authenticate': challenge,
      });
    }
    return true;
  }

  async #admit(request: ApiRequest) {
    try {
      const headers = request.authorizationHeaders;
      if (headers.length > 1) throw new NotAdmitted('malformed_header');
      return await this.bearer.authenticate(headers[0], request.deadline);
    } catch (error) {
      if (!(error instanceof NotAdmitted)) throw error;
      request.refusal = error.refusal;
      if (error.keyId !== undefined) request.keyId = error.keyId;
      const challenge = error.refusal === 'no_key' ? CHALLENGE : `${CHALLENGE}, error="invalid_token"`;
      throw new ApiError('unauthorized', 'The API key is missing or invalid.', { 'WWW-Authenticate': challenge });
    }
  }
}

/** Guards a handler, and says so in the document: a live bearer key with this scope is needed. */
export function RequireScope(scope: Scope): MethodDecorator {
  return applyDecorators(
    SetMetadata(SCOPE, scope),
    UseGuards(AuthGuard),
    ApiSecurity(API_KEY_SCHEME),
    ApiExtension('x-required-scope', scope),
  );
}
