import { Module } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { KeyCheck } from './key-check.js';
import { AuthGuard } from './auth.guard.js';
import { BearerStrategy } from './bearer.strategy.js';
import { RateLimit } from './rate-limit.js';

@Module({
  providers: [KeyCheck, BearerStrategy, RateLimit, { provide: APP_GUARD, useClass: AuthGuard }],
  exports: [KeyCheck],
})
export class AuthModule {}
