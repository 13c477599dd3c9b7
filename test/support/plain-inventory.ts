import { Injectable } from '@nestjs/common';
import { PrismaService } from '../../src/database/prisma.service.ts';
import type { QuantityUpdate, QuantityUpdates, UpdateOutcome } from '../../src/inventory/quantity-updates.ts';
import { Piece, StockList } from '../../src/inventory/stock-list.ts';
import { itemTag } from '../../src/inventory/inventory.dto.ts';

/** `ListCache` without its idea: the whole stock is read for every request. */
@Injectable()
export class PlainList {
  readonly bytes = 0;
  readonly readings = 0;
  readonly patches = 0;
  readonly reuses = 0;

  constructor(private readonly prisma: PrismaService) {}

  async at(): Promise<StockList> {
    const items = await this.prisma.inventoryItem.findMany({ orderBy: { petId: 'asc' } });
    const texts = items.map((item) => `{"petId":${item.petId},"quantity":${item.quantity},"status":"${item.status}"}`);
    return new StockList(Piece.cut(texts.length === 0 ? '' : `[${texts.join()}`));
  }
}

/** `QuantityUpdates` without its idea: a transaction for each update. The history trigger is told that the row is written here. */
@Injectable()
export class PlainUpdates implements Pick<QuantityUpdates, 'apply' | 'heldCommits'> {
  readonly heldCommits = 0;

  constructor(private readonly prisma: PrismaService) {}

  apply({ petId, quantity, ifMatch, idempotencyKey, changedBy, requestId }: QuantityUpdate): Promise<UpdateOutcome> {
    return this.prisma.$transaction(async (transaction): Promise<UpdateOutcome> => {
      await transaction.$executeRaw`SELECT set_config('inventory.recorded_in', pg_current_xact_id()::text, true)`;
      await transaction.$executeRaw`SELECT 1 FROM inventory_item WHERE pet_id = ${petId} FOR NO KEY UPDATE`;
      if (idempotencyKey !== null) {
        const first = await transaction.stockChange.findFirst({ where: { changedBy, idempotencyKey } });
        if (first && (first.petId !== petId || first.quantityAfter !== quantity)) return { outcome: 'key_reused' };
        if (first?.statusAfter) return { outcome: 'replayed', item: { petId, quantity, status: first.statusAfter } };
      }
      const item = await transaction.inventoryItem.findUnique({ where: { petId } });
      if (!item) return { outcome: 'absent' };
      if (ifMatch && !ifMatch.includes(itemTag(item))) return { outcome: 'precondition_failed', item };
      const { status } = await transaction.inventoryItem.update({ where: { petId }, data: { quantity } });
      await transaction.stockChange.create({
        data: {
          ...{
            petId,
            quantityBefore: item.quantity,
            quantityAfter: quantity,
            statusBefore: status,
            statusAfter: status,
          },
          ...{ changedBy, requestId, idempotencyKey },
        },
      });
      return { outcome: 'done', item: { petId, quantity, status } };
    });
  }
}
