import { Module } from '@nestjs/common';
import { AuthModule } from '../auth/auth.module.js';
import { Drain } from '../http/drain.js';
import { InventoryModule } from '../inventory/inventory.module.js';
import { Log } from './log.js';
import { Metrics } from './metrics.js';
import { OperationsController } from './operations.controller.js';
import { Readiness } from './readiness.js';
import { RequestLog } from './request-log.js';

@Module({
  imports: [AuthModule, InventoryModule],
  controllers: [OperationsController],
  providers: [Drain, Log, Metrics, Readiness, RequestLog],
})
export class OperationsModule {}
