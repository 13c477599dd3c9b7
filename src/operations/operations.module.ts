import { Global, Module } from '@nestjs/common';
import { Drain } from '../http/drain.js';
import { HealthController } from './health.controller.js';
import { Log } from './log.js';
import { Readiness } from './readiness.js';

@Global()
@Module({ controllers: [HealthController], providers: [Drain, Log, Readiness], exports: [Drain, Log] })
export class OperationsModule {}
