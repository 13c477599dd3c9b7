import { Module } from '@nestjs/common';
import { PrismaService } from '../database/prisma.service.js';
import { Settings } from '../settings.js';
import { FastInventoryService } from './fast/fast-inventory.service.js';
import { InventoryController } from './inventory.controller.js';
import { InventoryService } from './inventory.service.js';
import { ListResponses } from './list-responses.js';

@Module({
  controllers: [InventoryController],
  providers: [
    ListResponses,
    {
      provide: InventoryService,
      inject: [PrismaService, Settings],
      useFactory: (prisma: PrismaService, settings: Settings) =>
        settings.FAST === 'on' ? new FastInventoryService(prisma, settings) : new InventoryService(prisma),
    },
  ],
  exports: [InventoryService],
})
export class InventoryModule {}
