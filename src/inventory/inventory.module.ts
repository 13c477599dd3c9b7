import { Module } from '@nestjs/common';
import { InventoryController } from './inventory.controller.js';
import { InventoryService } from './inventory.service.js';
import { ListCache } from './list-cache.js';
import { ListResponses } from './list-responses.js';
import { QuantityUpdates } from './quantity-updates.js';

@Module({
  controllers: [InventoryController],
  providers: [InventoryService, ListCache, ListResponses, QuantityUpdates],
  exports: [ListCache, QuantityUpdates],
})
export class InventoryModule {}
