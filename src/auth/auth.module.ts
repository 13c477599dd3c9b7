import { Global, Module } from '@nestjs/common';
import { AdmissionService } from './admission.js';
import { AuthGuard } from './auth.guard.js';
import { BearerStrategy } from './bearer.strategy.js';
import { RateLimit } from './rate-limit.js';

@Global()
@Module({
  providers: [AdmissionService, BearerStrategy, RateLimit, AuthGuard],
  exports: [AdmissionService, BearerStrategy, RateLimit, AuthGuard],
})
export class AuthModule {}
