import { Module } from '@nestjs/common';
import { InventoryController } from './inventory.controller.js';
import { InventoryService } from './inventory.service.js';
import { KeptList } from './kept-list.js';
import { QuantityUpdates } from './quantity-updates.js';

@Module({
  controllers: [InventoryController],
  providers: [InventoryService, KeptList, QuantityUpdates],
  exports: [KeptList],
})
export class InventoryModule {}
