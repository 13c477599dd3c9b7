import { hash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { Injectable } from '@nestjs/common';
import { exactIntegers } from '../lib/http/json.ts';
import { RefusedValue } from '../lib/postgres/index.ts';
import { NOT_AS_REQUESTED } from '../database-errors.ts';
import { PrismaService } from '../prisma.service.ts';
import type { Prisma } from '../generated/prisma/client.ts';
import { Settings } from '../settings.ts';
import { ListAudits } from './list/list-audits.ts';
import { type Page, type Reading, StockReadings, readWhole } from './list/stock-readings.ts';
import type { UpdateOutcome } from './update/update-outcomes.ts';
import { UpdateTransactions } from './update/update-transactions.ts';
import { Inventory, type ListRequest, type QuantityUpdate } from './inventory.ts';
import { InventoryCounts } from './inventory-counts.ts';
import type { InventoryItem } from './inventory.dto.ts';
import { itemTag } from './item.ts';
import { MAX_PET_ID } from './item-limits.ts';

/** The event loop is held while the rows of one statement are read: with larger pages, updates would wait longer. */
const PETS_PER_PAGE = 1_024;

/** The contract on Prisma: the stock is read page by page, and each update is a transaction of its own. */
@Injectable()
export class InventoryService extends Inventory {
  readonly #readings: StockReadings;
  readonly #updates: UpdateTransactions;

  constructor(
    private readonly prisma: PrismaService,
    settings: Settings,
    private readonly counts: InventoryCounts,
    private readonly audits: ListAudits,
  ) {
    super();
    this.#readings = new StockReadings(settings, (reading) => this.#readStock(reading));
    this.#updates = new UpdateTransactions(prisma, settings, counts, applyUpdate);
  }

  /** Waits for the next reading, which all requests share that wait for it. */
  async list(request: ListRequest) {
    this.audits.beginIfDue();
    const list = await this.#readings.share(request);
    this.counts.listBytes = list.plain.length;
    return list;
  }

  /** Reads the whole stock, page by page, in one transaction. */
  async #readStock(reading: Reading) {
    const { list } = await readWhole(this.prisma, nextPage, reading);
    this.counts.readings++;
    return list;
  }

  setQuantity(update: QuantityUpdate, deadline: number) {
    return this.#updates.setQuantity(update, deadline);
  }
}

async function nextPage(transaction: Prisma.TransactionClient, from: bigint): Promise<Page> {
  const items: InventoryItem[] = await transaction.inventoryItem.findMany({
    where: { petId: { gte: from } },
    orderBy: { petId: 'asc' },
    take: PETS_PER_PAGE,
  });
  const last = items.at(-1);
  const text = last === undefined ? '' : `,${JSON.stringify(items, exactIntegers).slice(1, -1)}`;
  const isEnd = last === undefined || items.length < PETS_PER_PAGE || last.petId === MAX_PET_ID;
  return { items: text, next: isEnd ? null : last.petId + 1n };
}

/** How Prisma says that no row was updated. */
const NO_ROW = 'P2025';

/** All that a history row says of the item: the compiler finds a member that is left out. */
type StateChange = Required<
  Pick<Prisma.StockChangeCreateManyInput, `${Exclude<keyof InventoryItem, 'petId'>}${'Before' | 'After'}`>
>;

/** Writes an update and its history row. @throws RefusedValue if a trigger changed either, or kept it back */
async function applyUpdate(tx: Prisma.TransactionClient, update: QuantityUpdate): Promise<UpdateOutcome> {
  const { petId, quantity, ifMatch, changedBy, idempotencyKey, requestId, reason } = update;
  const known = await outcomeOfFirstUse(tx, update);
  if (known) return known;
  // No wait for a locked pet, because it would hold a connection: the update is tried again.
  const [item] = await tx.$queryRaw<InventoryItem[]>`
    SELECT pet_id AS "petId", quantity, status FROM inventory_item WHERE pet_id = ${petId} FOR NO KEY UPDATE SKIP LOCKED`;
  // From here on, each refusal looks for the first use again: it may have committed in between. Without this, a
  // repetition got 412 because its first use had changed the pet, or 404 because the pet was removed after that.
  if (item?.petId !== petId) {
    // Read without a lock, a pet that another transaction replaces is there: the old one or the new one.
    const present = await tx.inventoryItem.findUnique({ where: { petId } });
    // A damaged index can lead to another pet's row.
    return (await outcomeOfFirstUse(tx, update)) ?? { outcome: present?.petId === petId ? 'busy' : 'absent' };
  }
  if (ifMatch && !ifMatch.includes(itemTag(item)))
    return (await outcomeOfFirstUse(tx, update)) ?? { outcome: 'precondition_failed', item };
  const { status, quantity: quantityBefore } = item;
  const requested: InventoryItem = { petId, quantity, status };
  const change: StateChange = { quantityBefore, quantityAfter: quantity, statusBefore: status, statusAfter: status };
  const ifMatchSha256 = idempotencyKey === null ? null : sha256Of(ifMatch);
  // History first: a trigger of the operator may change the pet again after the update, and that gets a later history
  // row.
  const [row] = await tx.stockChange.createManyAndReturn({
    data: { petId, ...change, changedBy, requestId, reason, idempotencyKey, ifMatchSha256 },
  });
  const locked: InventoryItem = { petId, quantity: quantityBefore, status };
  const written = await tx.inventoryItem.update({ where: locked, data: { quantity } }).catch((error: unknown) => {
    if ((error as { code?: unknown }).code === NO_ROW) return null; // a trigger kept it back, or changed the locked row
    throw error;
  });
  // The row has other members, too, such as its id. A trigger may have changed any member that was requested.
  const isAsRequested = isDeepStrictEqual({ ...row, petId, ...change }, row) && isDeepStrictEqual(written, requested);
  if (!isAsRequested) throw new RefusedValue(NOT_AS_REQUESTED);
  return { outcome: 'done', item: requested };
}

/**
 * The outcome, if a committed update used the key first. If so, this transaction writes a message, so that its own
 * commit waits for a standby as that of the first use did.
 */
async function outcomeOfFirstUse(
  tx: Prisma.TransactionClient,
  { petId, quantity, ifMatch, changedBy, idempotencyKey }: QuantityUpdate,
): Promise<UpdateOutcome | undefined> {
  if (idempotencyKey === null) return undefined;
  const first = await tx.stockChange.findFirst({ where: { changedBy, idempotencyKey } });
  if (!first?.statusAfter) return undefined;
  const sha256 = first.ifMatchSha256 && Buffer.from(first.ifMatchSha256);
  const isSame = isDeepStrictEqual([first.petId, first.quantityAfter, sha256], [petId, quantity, sha256Of(ifMatch)]);
  if (!isSame) return { outcome: 'key_reused' };
  await tx.$executeRaw`SELECT pg_logical_emit_message(true, 'inventory', 'replay')`;
  return { outcome: 'replayed', item: { petId, quantity, status: first.statusAfter } };
}

function sha256Of(ifMatch: QuantityUpdate['ifMatch']): Buffer<ArrayBuffer> | null {
  return ifMatch && hash('sha256', ifMatch.join(' '), 'buffer');
}
