import { Module } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { AuthModule } from '../keys/auth.module.ts';
import { Settings } from '../settings.ts';
import { FastInventoryService } from './fast/fast-inventory.service.ts';
import { InventoryController } from './inventory.controller.ts';
import { Inventory } from './inventory.ts';
import { InventoryService } from './inventory.service.ts';
import { ListResponses } from './list/list-responses.ts';
import { InventoryCounts } from './inventory-counts.ts';
import { ListAudits } from './list/list-audits.ts';

@Module({
  imports: [AuthModule],
  controllers: [InventoryController],
  providers: [
    InventoryCounts,
    ListAudits,
    ListResponses,
    {
      provide: Inventory,
      inject: [ModuleRef, Settings],
      useFactory: (module: ModuleRef, { FAST }: Settings) =>
        module.create<Inventory>(FAST === 'on' ? FastInventoryService : InventoryService),
    },
  ],
  exports: [Inventory, InventoryCounts, ListAudits],
})
export class InventoryModule {}
