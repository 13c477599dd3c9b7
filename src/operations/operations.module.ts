import { Module } from '@nestjs/common';
import { AuthModule } from '../auth/auth.module.js';
import { InventoryModule } from '../inventory/inventory.module.js';
import { Log } from './log.js';
import { Metrics } from './metrics.js';
import { OperationsController } from './operations.controller.js';
import { Readiness } from './readiness.js';
import { RequestLog } from './request-log.js';

@Module({
  imports: [AuthModule, InventoryModule],
  controllers: [OperationsController],
  providers: [Log, Metrics, Readiness, RequestLog],
})
export class OperationsModule {}
