import { Module } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { KeyCheck } from './key-check.ts';
import { AuthGuard } from './auth.guard.ts';
import { BearerStrategy } from './bearer.strategy.ts';
import { RateLimit } from './rate-limit.ts';

@Module({
  providers: [KeyCheck, BearerStrategy, RateLimit, { provide: APP_GUARD, useClass: AuthGuard }],
  exports: [KeyCheck],
})
export class AuthModule {}
