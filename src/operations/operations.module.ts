import { Module } from '@nestjs/common';
import { AuthModule } from '../keys/auth.module.ts';
import { InventoryModule } from '../inventory/inventory.module.ts';
import { Log } from './log.ts';
import { Metrics } from './metrics.ts';
import { OperationsController } from './operations.controller.ts';
import { Readiness } from './readiness.ts';
import { RequestLog } from './request-log.ts';

@Module({
  imports: [AuthModule, InventoryModule],
  controllers: [OperationsController],
  providers: [Log, Metrics, Readiness, RequestLog],
})
export class OperationsModule {}
