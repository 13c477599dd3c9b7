import { hash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { Injectable } from '@nestjs/common';
import { Batcher, FailedCall } from '../database/batcher.js';
import { NOT_AS_ASKED, NotApplied, RefusedValue, UnconfirmedCommit, failureOf } from '../database/database-failure.js';
import { DeadlinePassed, boundsOfRequest, byDeadline, leastTimeToSend } from '../database/deadline.js';
import { PrismaService } from '../database/prisma.service.js';
import { Prisma } from '../generated/prisma/client.js';
import { exactIntegers } from '../http/exact-integers.js';
import { Settings } from '../settings.js';
import { HeldCommits, MOST_HELD } from './bounds/held-commits.js';
import { InventoryCounts } from './bounds/inventory-counts.js';
import { ListAudits } from './bounds/list-audits.js';
import { type Page, StockReadings } from './bounds/stock-readings.js';
import { type UpdateOutcome, untilApplied } from './bounds/update-attempts.js';
import type { InventoryContract, ListRequest, QuantityUpdate, Updated } from './inventory.contract.js';
import type { InventoryItem } from './inventory.dto.js';
import { ITEM_COLUMNS, itemTag } from './stock-item.js';
import type { StockList } from './stock-list.js';
import { MAX_PET_ID } from './stock.limits.js';

/** The event loop is held while the rows of one statement are read, and each statement of an update waits for that. */
const PETS_PER_PAGE = 1_024;

/** The contract by Prisma alone: the stock is read page by page, and each update is a transaction of its own. */
@Injectable()
export class InventoryService implements InventoryContract {
  readonly counts = new InventoryCounts();
  readonly audits: ListAudits;
  readonly #readings: StockReadings;
  readonly #updates: Batcher<QuantityUpdate, UpdateOutcome>;
  readonly #heldCommits: HeldCommits;
  readonly #timeoutMs: number;
  /** Whether commits may be held: at the start, and after a commit whose outcome is unknown. */
  #mayBeHeld = true;
  /** How many commits of the next batch may come to be held. */
  #room = MOST_HELD;
  /** Those of the batch. Between two batches: those that were given up and still have their connections. */
  readonly #transactions = new Set<Promise<unknown>>();

  constructor(
    private readonly prisma: PrismaService,
    settings: Settings,
  ) {
    this.audits = new ListAudits(prisma);
    this.#readings = new StockReadings(settings, prisma, this.counts, async (_requests, onResponse) => {
      return (await this.#readings.whole(nextPage, onResponse)).list;
    });
    this.#heldCommits = new HeldCommits(settings, this.counts);
    this.#timeoutMs = boundsOfRequest(settings.REQUEST_DEADLINE_MS).query_timeout;
    this.#updates = new Batcher((updates, deadline) => this.#apply(updates, deadline), {
      name: 'updates',
      // Each has a connection of the pool, and one is left for a list.
      maxCalls: Math.max(1, Math.min(settings.DATABASE_POOL_SIZE - 1, MOST_HELD)),
      maxWaiting: settings.MAX_WAITING_REQUESTS,
      notSentWithinMs: leastTimeToSend(settings.REQUEST_DEADLINE_MS),
      endsByDeadline: true,
      open: () => (this.#mayBeHeld || this.#transactions.size > 0 ? this.#getReady() : undefined),
      order: ({ petId }) => ({ key: petId, exclusive: true }),
    });
  }

  async list(request: ListRequest): Promise<StockList> {
    this.audits.beginIfDue();
    const list = await this.#readings.next(request);
    this.counts.listBytes = list.plain.length;
    return list;
  }

  setQuantity(update: QuantityUpdate, deadline: number): Promise<Updated> {
    return untilApplied(update, deadline, () => this.#updates.call(update, deadline));
  }

  /** Each in a transaction of its own, all at the same time. */
  async #apply(updates: readonly QuantityUpdate[], deadline: number): Promise<(UpdateOutcome | FailedCall)[]> {
    const room = this.#room;
    this.#room = MOST_HELD;
    return Promise.all(
      updates.map(async (update, at) => {
        if (at >= room)
          return new FailedCall(new NotApplied('as many commits as may wait for the synchronous standby'));
        try {
          return await this.#attempt(update, deadline);
        } catch (error) {
          this.#mayBeHeld ||= failureOf(error).outcome === 'unknown';
          return new FailedCall(error);
        }
      }),
    );
  }

  async #getReady(): Promise<void> {
    await Promise.allSettled(this.#transactions);
    if (!this.#mayBeHeld) return;
    try {
      this.#room = await this.#heldCommits.room((sql, ...values) => this.prisma.$queryRawUnsafe(sql, ...values));
    } catch (error) {
      throw new NotApplied('no session could be used; nothing was sent', { cause: error });
    }
    this.#mayBeHeld = false;
  }

  async #attempt(update: QuantityUpdate, deadline: number): Promise<UpdateOutcome> {
    const { pool } = this.prisma;
    const unconfirmedBefore = pool.unconfirmedCommits;
    const leftMs = Math.max(1, deadline - performance.now());
    let isCommitting = false as boolean;
    let isGivenUp = false as boolean;
    const transaction = this.prisma.$transaction(
      async (tx) => {
        const outcome = await applyIn(tx, update, this.#timeoutMs);
        if (isGivenUp) throw new DeadlinePassed(true); // and so it is rolled back
        isCommitting = true;
        return outcome;
      },
      { maxWait: leftMs, timeout: leftMs },
    );
    this.#transactions.add(transaction);
    void transaction.catch(() => undefined).finally(() => this.#transactions.delete(transaction));
    try {
      const outcome = await byDeadline(deadline, transaction);
      // Perhaps of another transaction: then this one is not sure either.
      if (pool.unconfirmedCommits > unconfirmedBefore) throw new UnconfirmedCommit();
      return outcome;
    } catch (error) {
      isGivenUp = true;
      if (isCommitting || failureOf(error).outcome !== 'unknown') throw error;
      if (error instanceof DeadlinePassed) throw new DeadlinePassed(false);
      throw new NotApplied('the transaction ended before its commit', { cause: error });
    }
  }
}

/** The items of one page, by Prisma. */
async function nextPage(transaction: Prisma.TransactionClient, from: bigint): Promise<Page> {
  const items: readonly InventoryItem[] = await transaction.inventoryItem.findMany({
    where: { petId: { gte: from } },
    orderBy: { petId: 'asc' },
    take: PETS_PER_PAGE,
  });
  const last = items.length === PETS_PER_PAGE ? items.at(-1) : undefined;
  const text = items.length === 0 ? '' : `,${JSON.stringify(items, exactIntegers).slice(1, -1)}`;
  return { items: text, next: last === undefined || last.petId === MAX_PET_ID ? null : last.petId + 1n };
}

/** How Prisma tells that no row was updated. */
const NO_ROW = 'P2025';

/** All that a history row says of the item: the compiler finds a member that is left out. */
type StateChange = Required<
  Pick<Prisma.StockChangeCreateManyInput, `${Exclude<keyof InventoryItem, 'petId'>}${'Before' | 'After'}`>
>;

/** @param timeoutMs how long the transaction may last before it is committed */
async function applyIn(
  tx: Prisma.TransactionClient,
  update: QuantityUpdate,
  timeoutMs: number,
): Promise<UpdateOutcome> {
  const { petId, quantity, ifMatch, changedBy, idempotencyKey, requestId, reason } = update;
  // The table's trigger writes no history row, because the one that is written here names the key and the request.
  await tx.$queryRaw`
    SELECT set_config('inventory.recorded_in', pg_current_xact_id()::text, true),
           CASE current_setting('client_min_messages') WHEN 'error' THEN set_config('client_min_messages', 'warning', true) END,
           CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END,
           CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL
                THEN set_config('transaction_timeout', ${String(timeoutMs)}, true) END`;
  const known = await firstUse(tx, update);
  if (known) return known;
  // A wait would hold a connection: the service tries a locked pet again instead.
  const [item] = await tx.$queryRaw<InventoryItem[]>`
    SELECT ${Prisma.raw(ITEM_COLUMNS)} FROM inventory_item WHERE pet_id = ${petId} FOR NO KEY UPDATE SKIP LOCKED`;
  if (!item) {
    // Without a lock, a transaction that replaces the pet shows the old one or the new one.
    const isThere = await tx.inventoryItem.findUnique({ where: { petId } });
    return (await firstUse(tx, update)) ?? { outcome: isThere ? 'busy' : 'absent' };
  }
  if (ifMatch && !ifMatch.includes(itemTag(item)))
    return (await firstUse(tx, update)) ?? { outcome: 'precondition_failed', item };
  const { status, quantity: quantityBefore } = item;
  const asked: InventoryItem = { petId, quantity, status };
  const change: StateChange = { quantityBefore, quantityAfter: quantity, statusBefore: status, statusAfter: status };
  const ifMatchSha256 = idempotencyKey === null ? null : sha256Of(ifMatch);
  // History first: a trigger may change the pet again after the update, and that change gets a history row of its own.
  const [row] = await tx.stockChange.createManyAndReturn({
    data: { petId, ...change, changedBy, requestId, reason, idempotencyKey, ifMatchSha256 },
  });
  const locked = { petId, quantity: quantityBefore, status };
  const written = await tx.inventoryItem.update({ where: locked, data: { quantity } }).catch((error: unknown) => {
    if ((error as { code?: unknown }).code === NO_ROW) return null; // a trigger kept it back, or changed the locked row
    throw error;
  });
  if (!isDeepStrictEqual({ ...row, petId, ...change }, row) || !isDeepStrictEqual(written, asked))
    throw new RefusedValue(NOT_AS_ASKED);
  return { outcome: 'done', item: asked };
}

/** The outcome of the committed update that used the key first. */
async function firstUse(
  tx: Prisma.TransactionClient,
  { petId, quantity, ifMatch, changedBy, idempotencyKey }: QuantityUpdate,
): Promise<UpdateOutcome | undefined> {
  if (idempotencyKey === null) return undefined;
  const first = await tx.stockChange.findFirst({ where: { changedBy, idempotencyKey } });
  if (!first?.statusAfter) return undefined;
  const isSame = first.petId === petId && first.quantityAfter === quantity;
  if (!isSame || !sameBytes(first.ifMatchSha256, sha256Of(ifMatch))) return { outcome: 'key_reused' };
  // The commit waits for a standby, as the commit of the first use did.
  await tx.$executeRaw`SELECT pg_logical_emit_message(true, 'inventory', 'replay')`;
  return { outcome: 'replayed', item: { petId, quantity, status: first.statusAfter } };
}

function sha256Of(ifMatch: QuantityUpdate['ifMatch']): Buffer<ArrayBuffer> | null {
  return ifMatch && hash('sha256', ifMatch.join(' '), 'buffer');
}

function sameBytes(one: Uint8Array | null, other: Buffer | null): boolean {
  return one === null || other === null ? one === other : other.equals(one);
}
