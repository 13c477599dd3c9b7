import { Module } from '@nestjs/common';
import { InventoryController } from './inventory.controller.js';
import { InventoryService } from './inventory.service.js';
import { KeptList } from './kept-list.js';
import { ListReaders } from './list.readers.js';
import { QuantityUpdates } from './quantity-updates.js';

@Module({
  controllers: [InventoryController],
  providers: [InventoryService, KeptList, ListReaders, QuantityUpdates],
  exports: [KeptList, QuantityUpdates],
})
export class InventoryModule {}
