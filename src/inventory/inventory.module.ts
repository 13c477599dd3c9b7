import { Module } from '@nestjs/common';
import { AuthModule } from '../keys/auth.module.ts';
import { KeyCheck } from '../keys/key-check.ts';
import { PrismaService } from '../prisma.service.ts';
import { Settings } from '../settings.ts';
import { FastInventoryService } from './fast/fast-inventory.service.ts';
import { InventoryController } from './inventory.controller.ts';
import { Inventory } from './inventory.ts';
import { InventoryService } from './inventory.service.ts';
import { ListResponses } from './list-responses.ts';

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
