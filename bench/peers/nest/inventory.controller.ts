import { BadRequestException, Body, Controller, Get, NotFoundException, Param, Patch, UseGuards } from '@nestjs/common';
import { IsInt, Max, Min } from 'class-validator';
import { Prisma, type InventoryItem } from '../../../src/generated/prisma/client.js';
import { BearerGuard, RequireScope, ScopeGuard } from './bearer.strategy.js';
import { PrismaService } from './prisma.service.js';

class InventoryUpdate {
  @IsInt()
  @Min(0)
  @Max(2_147_483_647)
  quantity!: number;
}

class Int64Pipe {
  transform(text: string): bigint {
    if (!/^(0|-?[1-9][0-9]{0,18})$/.test(text) || BigInt.asIntN(64, BigInt(text)) !== BigInt(text)) {
      throw new BadRequestException('petId must be an int64');
    }
    return BigInt(text);
  }
}

@Controller('inventory')
@UseGuards(BearerGuard, ScopeGuard)
export class InventoryController {
  constructor(private readonly prisma: PrismaService) {}

  @Get()
  @RequireScope('inventory:read')
  list(): Promise<InventoryItem[]> {
    return this.prisma.inventoryItem.findMany({ orderBy: { petId: 'asc' } });
  }

  /** The database's trigger writes the history row within the same statement. */
  @Patch(':petId')
  @RequireScope('inventory:write')
  async update(
    @Param('petId', Int64Pipe) petId: bigint,
    @Body() { quantity }: InventoryUpdate,
  ): Promise<InventoryItem> {
    try {
      return await this.prisma.inventoryItem.update({ where: { petId }, data: { quantity } });
    } catch (error) {
      if (error instanceof Prisma.PrismaClientKnownRequestError && error.code === 'P2025')
        throw new NotFoundException();
      throw error;
    }
  }
}
