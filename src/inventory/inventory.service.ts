import { hash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { Injectable } from '@nestjs/common';
import {
  NotApplied,
  RefusedValue,
  RuleInTheWay,
  UnconfirmedCommit,
  mayReadAgain,
  mayWriteAgain,
  outcomeOf,
  readFailure,
  writeFailure,
} from '../database/database-failure.js';
import { DeadlinePassed, byDeadline, untilDeadline } from '../database/deadline.js';
import { PrismaService } from '../database/prisma.service.js';
import { RULES_AGAINST, ruleAgainst } from '../database/rewrite-rules.js';
import type { Snapshot } from '../database/snapshot.js';
import { ApiError } from '../errors/api-error.js';
import { NOT_AS_ASKED } from '../errors/error-text.js';
import { Prisma } from '../generated/prisma/client.js';
import { type InventoryItem, itemTag } from './inventory.dto.js';
import { ITEM_COLUMNS } from './stock-item.js';
import { StockList } from './stock-list.js';

export interface QuantityUpdate {
  readonly petId: bigint;
  readonly quantity: number;
  /** The item must have one of these tags; null when the client asks for none. */
  readonly ifMatch: readonly string[] | null;
  /** What a 412 says; undefined for the message of its code. */
  readonly mismatch?: string | undefined;
  /** The author of the change in the history. */
  readonly changedBy: string;
  /** The update takes place once under this key of its author. */
  readonly idempotencyKey: string | null;
  readonly requestId: string;
  /** Why, in the client's words; for the history. */
  readonly reason: string | null;
}

/** Only `done` has written. The item is the update's result, or the present one where the precondition failed. */
export type UpdateOutcome =
  | { readonly outcome: 'done' | 'replayed' | 'precondition_failed'; readonly item: InventoryItem }
  | { readonly outcome: 'key_reused' }
  | { readonly outcome: 'absent' };

/** The stock by Prisma alone: read as a whole, set pet by pet. `fast/` gives the same answers with less work. */
@Injectable()
export class InventoryService {
  /** For the metrics. */
  readonly counts = { readings: 0, patches: 0, reuses: 0, listBytes: 0, heldCommits: 0 };

  constructor(protected readonly prisma: PrismaService) {}

  /**
   * The complete stock in ascending `petId`, of the given snapshot or a later one.
   *
   * @param deadline on the clock of `performance.now()`; by then the database has to have begun to respond
   * @throws NotApplied when the database does not answer
   */
  async list(snapshot: Snapshot, deadline: number): Promise<StockList> {
    try {
      const list = await this.readList(snapshot, deadline);
      this.counts.listBytes = list.plain.length;
      return list;
    } catch (error) {
      throw readFailure(error);
    }
  }

  /**
   * Sets one pet's quantity; its status stays. Resolves when the change is committed and durable.
   *
   * @throws ApiError `not_found`, `idempotency_key_reused` or `precondition_failed`; NotApplied, OutcomeUnknown
   */
  async setQuantity(update: QuantityUpdate, deadline: number): Promise<UpdateOutcome & { item: InventoryItem }> {
    // An update that may have been committed is never repeated.
    const attempts = untilDeadline(deadline, mayWriteAgain, () => this.attempt(update, deadline));
    const result = await attempts.catch((error: unknown) => Promise.reject(writeFailure(error) as Error));
    if (result.outcome === 'key_reused') throw new ApiError('idempotency_key_reused');
    if (result.outcome === 'absent') throw new ApiError('not_found');
    if (result.outcome === 'precondition_failed')
      throw new ApiError('precondition_failed', update.mismatch, { ETag: `"${itemTag(result.item)}"` });
    return result;
  }

  protected async readList(_snapshot: Snapshot, deadline: number): Promise<StockList> {
    const read = () => byDeadline(deadline, this.prisma.inventoryItem.findMany({ orderBy: { petId: 'asc' } }));
    this.counts.readings++;
    return StockList.of(await untilDeadline(deadline, mayReadAgain, read));
  }

  protected async attempt(update: QuantityUpdate, deadline: number): Promise<UpdateOutcome> {
    const leftMs = Math.max(1, deadline - performance.now());
    const bounds = { maxWait: leftMs, timeout: leftMs };
    let isCommitting = false as boolean;
    let isGivenUp = false as boolean;
    const unconfirmedBefore = this.prisma.pool.unconfirmedCommits;
    const transaction = this.prisma.$transaction(async (tx) => {
      const outcome = await applyIn(tx, update);
      if (isGivenUp) throw new DeadlinePassed(true); // and so it is rolled back
      isCommitting = true;
      return outcome;
    }, bounds);
    try {
      const outcome = await byDeadline(deadline, transaction);
      // Perhaps another transaction's: then nobody is sure of this one either.
      if (this.prisma.pool.unconfirmedCommits > unconfirmedBefore) throw new UnconfirmedCommit();
      return outcome;
    } catch (error) {
      isGivenUp = true;
      if (isCommitting || outcomeOf(error) !== 'unknown') throw error;
      if (error instanceof DeadlinePassed) throw new DeadlinePassed(false);
      throw new NotApplied('the transaction ended before its commit', { cause: error });
    }
  }
}

/** All that a history row says of the item: the compiler finds a member that is left out. */
type StateChange = Required<
  Pick<Prisma.StockChangeCreateManyInput, `${Exclude<keyof InventoryItem, 'petId'>}${'Before' | 'After'}`>
>;

async function applyIn(tx: Prisma.TransactionClient, update: QuantityUpdate): Promise<UpdateOutcome> {
  const { petId, quantity, ifMatch, changedBy, idempotencyKey, requestId, reason } = update;
  // The history row that is written here names the key and the request: the table's trigger writes none. The table is named, and
  // so locked: nobody can give it a rule before the end.
  const [settings] = await tx.$queryRaw<[{ rules: string | null }]>`
    SELECT set_config('inventory.recorded_in', pg_current_xact_id()::text, true),
           CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', true) END,
           ${Prisma.raw(RULES_AGAINST.updates)} AS rules
      FROM (VALUES (1)) AS always LEFT JOIN inventory_item ON false`;
  if (settings.rules !== null) throw new RuleInTheWay(ruleAgainst('updates', settings.rules));
  const known = await firstUse(tx, update);
  if (known) return known;
  // A wait would hold a connection: the service tries a locked row again instead.
  const [item] = await tx.$queryRaw<InventoryItem[]>`
    SELECT ${Prisma.raw(ITEM_COLUMNS)} FROM inventory_item WHERE pet_id = ${petId} FOR NO KEY UPDATE NOWAIT`;
  if (!item) return (await firstUse(tx, update)) ?? { outcome: 'absent' };
  if (ifMatch && !ifMatch.includes(itemTag(item)))
    return (await firstUse(tx, update)) ?? { outcome: 'precondition_failed', item };
  const { status, quantity: quantityBefore } = item;
  const asked: InventoryItem = { petId, quantity, status };
  const written = await tx.inventoryItem.updateManyAndReturn({ where: { petId }, data: { quantity } });
  if (!isDeepStrictEqual(written, [asked])) throw new RefusedValue(NOT_AS_ASKED);
  const change: StateChange = { quantityBefore, quantityAfter: quantity, statusBefore: status, statusAfter: status };
  const ifMatchSha256 = idempotencyKey === null ? null : sha256Of(ifMatch);
  const { count } = await tx.stockChange.createMany({
    data: { petId, ...change, changedBy, requestId, reason, idempotencyKey, ifMatchSha256 },
  });
  if (count !== 1) throw new RefusedValue(NOT_AS_ASKED);
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
