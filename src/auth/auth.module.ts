import { Global, Module } from '@nestjs/common';
import { AdmissionService } from './admission.js';
import { AuthGuard } from './auth.guard.js';
import { BearerStrategy } from './bearer.strategy.js';

@Global()
@Module({
  providers: [AdmissionService, BearerStrategy, AuthGuard],
  exports: [AdmissionService, BearerStrategy, AuthGuard],
})
export class AuthModule {}
