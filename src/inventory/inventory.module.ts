import { Module } from '@nestjs/common';
import { AuthModule } from '../auth/auth.module.js';
import { KeyCheck } from '../auth/key-check.js';
import { PrismaService } from '../database/prisma.service.js';
import { Settings } from '../settings.js';
import { FastInventoryService } from './fast/fast-inventory.service.js';
import { InventoryController } from './inventory.controller.js';
import { Inventory } from './inventory.js';
import { InventoryService } from './inventory.service.js';
import { ListResponses } from './list-responses.js';

@Module({
  imports: [AuthModule],
  controllers: [InventoryController],
  providers: [
    ListResponses,
    {
      provide: Inventory,
      inject: [PrismaService, Settings, KeyCheck],
      useFactory: (prisma: PrismaService, settings: Settings, keyCheck: KeyCheck) =>
        settings.FAST === 'on'
          ? new FastInventoryService(prisma, settings, () => keyCheck.nextUpdateArrives())
          : new InventoryService(prisma, settings),
    },
  ],
  exports: [Inventory],
})
export class InventoryModule {}
