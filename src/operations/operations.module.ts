import { Global, Module } from '@nestjs/common';
import { Drain } from '../http/drain.js';
import { InventoryModule } from '../inventory/inventory.module.js';
import { HealthController } from './health.controller.js';
import { Log } from './log.js';
import { Metrics } from './metrics.js';
import { MetricsController } from './metrics.controller.js';
import { Readiness } from './readiness.js';
import { RequestLog } from './request-log.js';

@Global()
@Module({
  imports: [InventoryModule],
  controllers: [HealthController, MetricsController],
  providers: [Drain, Log, Metrics, Readiness, RequestLog],
  exports: [Drain, Log, RequestLog],
})
export class OperationsModule {}
