import { Global, Module } from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { AdmissionService } from './admission.js';
import { AuthGuard } from './auth.guard.js';
import { BearerStrategy } from './bearer.strategy.js';
import { RateLimit } from './rate-limit.js';

@Global()
@Module({
  providers: [AdmissionService, BearerStrategy, RateLimit, { provide: APP_GUARD, useClass: AuthGuard }],
})
export class AuthModule {}
