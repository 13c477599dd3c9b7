import { ForbiddenException, Injectable, SetMetadata, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { AuthGuard, PassportStrategy } from '@nestjs/passport';
import { hash } from 'node:crypto';
import { Strategy } from 'passport-http-bearer';
import type { ApiKey } from '../../../src/generated/prisma/client.js';
import { PrismaService } from './prisma.service.js';

@Injectable()
export class BearerStrategy extends PassportStrategy(Strategy) {
  constructor(private readonly prisma: PrismaService) {
    super();
  }

  /** Passport turns false into 401. */
  async validate(token: string): Promise<ApiKey | false> {
    const keySha256 = new Uint8Array(hash('sha256', token, 'buffer'));
    const key = await this.prisma.apiKey.findUnique({ where: { keySha256 } });
    const now = new Date();
    if (!key || (key.expiresAt && key.expiresAt <= now) || (key.revokedAt && key.revokedAt <= now)) return false;
    return key;
  }
}

@Injectable()
export class BearerGuard extends AuthGuard('bearer') {}

export const RequireScope = (scope: string) => SetMetadata('scope', scope);

@Injectable()
export class ScopeGuard implements CanActivate {
  constructor(private readonly reflector: Reflector) {}

  canActivate(context: ExecutionContext): boolean {
    const { user } = context.switchToHttp().getRequest<{ user: ApiKey }>();
    if (!user.scopes.includes(this.reflector.get<string>('scope', context.getHandler())))
      throw new ForbiddenException();
    return true;
  }
}
