import {
  Batcher,
  boundsOfRequest,
  byDeadline,
  DeadlinePassed,
  FailedCall,
  leastTimeToSend,
  NotApplied,
  queryOfPrisma,
  UnconfirmedCommit,
} from '../../lib/postgres/index.ts';
import { failureOf } from '../../database-errors.ts';
import type { PrismaService } from '../../prisma.service.ts';
import type { Prisma } from '../../generated/prisma/client.ts';
import type { Settings } from '../../settings.ts';
import type { QuantityUpdate, Updated } from '../inventory.ts';
import type { InventoryCounts } from '../inventory-counts.ts';
import { requireFreeCommits, STOP_AT_HELD_COMMITS } from './held-commits.ts';
import { transactionSettings } from './transaction-settings.ts';
import { type UpdateOutcome, retryUntilApplied } from './update-outcomes.ts';

const SET_FOR_TRANSACTION = `SELECT ${transactionSettings('$1')}`;

/** Runs each update in a transaction of its own, with the bounds of the contract: deadline, waiting, held commits. */
export class UpdateTransactions {
  readonly #batcher: Batcher<QuantityUpdate, UpdateOutcome>;
  readonly #timeoutMs: number;
  /** True after a commit whose outcome is unknown, and at the start: another process may have left some. */
  #mayHaveHeldCommits = true;
  /** How many updates the next batch may have, so that few commits wait for a lost standby. */
  #mostInNextBatch = STOP_AT_HELD_COMMITS;
  /** Transactions that have not ended: between two batches, those that nobody waits for any more. */
  readonly #transactions = new Set<Promise<unknown>>();

  /** @param apply writes the update and its history row by the statements of the transaction */
  constructor(
    private readonly prisma: PrismaService,
    settings: Settings,
    private readonly counts: InventoryCounts,
    private readonly apply: (tx: Prisma.TransactionClient, update: QuantityUpdate) => Promise<UpdateOutcome>,
  ) {
    this.#timeoutMs = boundsOfRequest(settings.REQUEST_DEADLINE_MS).query_timeout;
    this.#batcher = new Batcher((updates, deadline) => this.#run(updates, deadline), {
      name: 'updates',
      // Each has a connection of the pool, and one is left for a list.
      maxCalls: Math.max(1, Math.min(settings.DATABASE_POOL_SIZE - 1, STOP_AT_HELD_COMMITS)),
      maxWaiting: settings.MAX_WAITING_REQUESTS,
      leastTimeLeftMs: leastTimeToSend(settings.REQUEST_DEADLINE_MS),
      endsByDeadline: true,
      open: () => (this.#mayHaveHeldCommits || this.#transactions.size > 0 ? this.#getReady() : undefined),
      order: ({ petId }) => ({ key: petId, exclusive: true }),
    });
  }

  setQuantity(update: QuantityUpdate, deadline: number): Promise<Updated> {
    return retryUntilApplied(deadline, () => this.#batcher.submit(update, deadline));
  }

  /** Each in a transaction of its own, all at the same time. */
  async #run(updates: readonly QuantityUpdate[], deadline: number): Promise<(UpdateOutcome | FailedCall)[]> {
    const most = this.#mostInNextBatch;
    this.#mostInNextBatch = STOP_AT_HELD_COMMITS;
    return Promise.all(
      updates.map(async (update, at) => {
        if (at >= most)
          return new FailedCall(new NotApplied('as many commits as may wait for the synchronous standby'));
        try {
          return await this.#attempt(update, deadline);
        } catch (error) {
          this.#mayHaveHeldCommits ||= failureOf(error).outcome === 'unknown';
          return new FailedCall(error);
        }
      }),
    );
  }

  async #getReady(): Promise<void> {
    await Promise.allSettled(this.#transactions);
    if (!this.#mayHaveHeldCommits) return;
    try {
      this.#mostInNextBatch = await requireFreeCommits(queryOfPrisma(this.prisma), this.counts, this.#timeoutMs);
    } catch (error) {
      throw new NotApplied('no session could be used; nothing was sent', { cause: error });
    }
    this.#mayHaveHeldCommits = this.#mostInNextBatch < STOP_AT_HELD_COMMITS;
  }

  async #attempt(update: QuantityUpdate, deadline: number): Promise<UpdateOutcome> {
    const { pool } = this.prisma;
    const unconfirmedBefore = pool.unconfirmedCommits;
    const leftMs = Math.max(1, deadline - performance.now());
    const state = { isCommitting: false, isGivenUp: false };
    const transaction = this.prisma.$transaction(
      async (tx) => {
        await tx.$queryRawUnsafe(SET_FOR_TRANSACTION, String(this.#timeoutMs));
        const applied = await this.apply(tx, update);
        if (state.isGivenUp) throw new DeadlinePassed({ sent: false }); // rolls it back; nobody waits for it any more
        state.isCommitting = true;
        return applied;
      },
      { maxWait: leftMs, timeout: leftMs },
    );
    this.#transactions.add(transaction);
    void transaction.catch(() => undefined).finally(() => this.#transactions.delete(transaction));
    try {
      const outcome = await byDeadline(deadline, transaction);
      // The pool counts the unconfirmed commits of all its sessions: this one may be among them.
      if (pool.unconfirmedCommits > unconfirmedBefore) throw new UnconfirmedCommit();
      return outcome;
    } catch (error) {
      state.isGivenUp = true;
      if (state.isCommitting || failureOf(error).outcome !== 'unknown') throw error;
      // Without its commit, nothing of the transaction stays.
      if (error instanceof DeadlinePassed) throw new DeadlinePassed({ sent: false });
      throw new NotApplied('the transaction ended before its commit', { cause: error });
    }
  }
}
