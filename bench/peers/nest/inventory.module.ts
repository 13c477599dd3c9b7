import { Module } from '@nestjs/common';
import { PassportModule } from '@nestjs/passport';
import { BearerStrategy } from './bearer.strategy.js';
import { InventoryController } from './inventory.controller.js';
import { PrismaService } from './prisma.service.js';

@Module({
  imports: [PassportModule],
  controllers: [InventoryController],
  providers: [PrismaService, BearerStrategy],
})
export class InventoryModule {}
