import { Injectable } from '@nestjs/common';
import { PrismaService } from '../database/prisma.service.js';
import { Batcher } from '../database/batcher.js';
import { mayReadAgain, NotApplied, sqlstateOf } from '../database/database-failure.js';
import { untilDeadline } from '../database/deadline.js';
import type { Snapshot } from '../database/session.js';
import { Settings } from '../settings.js';
import { CHANGES, LOCK, NEXT_ITEMS, PETS_PER_STATEMENT } from './list-statements.js';
import { type ChangedPet, PETS_PER_PIECE, Piece, StockList } from './stock-list.js';
import { MAX_PET_ID, MIN_PET_ID } from './stock.limits.js';

/** What reading tens of millions of pets takes; each of its statements has its own, shorter bound. */
const LONGEST_READING_MS = 25_000;

/** A request whose key check took long still gives the database so long to begin to respond. */
const LEAST_PATIENCE_MS = 400;

const WRONG_OBJECT_TYPE = '42809';
const LOCK_NOT_AVAILABLE = '55P03';

interface Call {
  readonly snapshot: Snapshot;
  /** Of the request, on the clock of `performance.now()`: by then the database has to have begun to respond. */
  readonly deadline: number;
}

/** What the database had committed when it was read, and the witness that its history has missed nothing. */
interface Reading {
  readonly transactions: string;
  readonly witness: string | null;
}

/** A list, and under what it may be used again, or brought up to date. */
interface Kept extends Reading {
  readonly list: StockList;
  readonly session: string;
}

/**
 * Keeps the list as bytes and lets PostgreSQL say how far they still hold: while the snapshot stays the same, wholly; then,
 * but for the pets that have changed since. `docs/decisions/kept-list.md` has the proof.
 */
@Injectable()
export class ListCache {
  readonly #batcher: Batcher<Call, StockList>;
  #kept: Kept | undefined;
  /** Length of the last list, not compressed. */
  bytes = 0;
  /** Times that the stock was read whole. */
  readings = 0;
  /** Times that only the changes since the kept list were read. */
  patches = 0;
  /** Requests that were answered without reading anything. */
  reuses = 0;

  constructor(
    settings: Settings,
    private readonly prisma: PrismaService,
  ) {
    this.#batcher = new Batcher((calls) => this.#listFor(calls), {
      name: 'list',
      maxCalls: settings.MAX_WAITING_REQUESTS,
      maxWaiting: settings.MAX_WAITING_REQUESTS,
    });
  }

  /**
   * The list of the given snapshot, or a later one. A reading that fails is tried again while the request's deadline allows.
   *
   * @param deadline of the request, on the clock of `performance.now()`
   * @throws what the database failed with
   */
  at(snapshot: Snapshot, deadline: number): StockList | Promise<StockList> {
    const kept = this.#keptAt(snapshot);
    if (!kept) {
      const longest = performance.now() + LONGEST_READING_MS;
      const call = () => this.#batcher.call({ snapshot, deadline }, longest);
      return untilDeadline(deadline - LEAST_PATIENCE_MS, mayReadAgain, call);
    }
    this.reuses++;
    return kept;
  }

  #keptAt({ session, transactions }: Snapshot): StockList | undefined {
    const kept = this.#kept;
    return session !== null && kept?.session === session && kept.transactions === transactions ? kept.list : undefined;
  }

  async #listFor(calls: readonly Call[]): Promise<StockList[]> {
    const kept = calls.map(({ snapshot }) => this.#keptAt(snapshot));
    if (kept.every((list) => list !== undefined)) return kept;
    const session = calls.at(-1)?.snapshot.session ?? null;
    const patienceMs = Math.max(
      LEAST_PATIENCE_MS,
      Math.min(...calls.map(({ deadline }) => deadline)) - performance.now(),
    );
    // A million pets take their time to read, but a database that is down or frozen may not.
    const { promise: silence, reject } = Promise.withResolvers<never>();
    const patience = setTimeout(
      () => reject(new NotApplied('the database did not begin to respond in time')),
      patienceMs,
    );
    try {
      const list = await Promise.race([this.#read(session, () => clearTimeout(patience)), silence]);
      this.bytes = list.length;
      return calls.map(() => list);
    } finally {
      clearTimeout(patience);
    }
  }

  /** The kept list with what has changed since; the whole stock where the changes are too many, too great or not all known. */
  async #read(session: string | null, onResponse: () => void): Promise<StockList> {
    const kept = this.#kept;
    if (session === null || kept?.session !== session) return this.#readWhole(session, onResponse);
    type Changes = Reading & { readonly changes: readonly ChangedPet[] };
    const changes = this.prisma.$queryRawUnsafe<Changes[]>(CHANGES, kept.transactions, session);
    const [read] = await changes.catch((error: unknown) => {
      if (sqlstateOf(error) === LOCK_NOT_AVAILABLE) return []; // held perhaps on the history, which a whole reading does without
      throw error;
    });
    if (read) onResponse();
    const list = read?.witness === kept.witness ? kept.list.with(read.changes) : undefined;
    if (!read || !list) return this.#readWhole(session, onResponse);
    this.patches++;
    this.#kept = { ...kept, list, transactions: read.transactions };
    return list;
  }

  async #readWhole(session: string | null, onResponse: () => void, isLocked = true): Promise<StockList> {
    const pieces: Piece[] = [];
    const reading = this.prisma.$transaction(
      async (transaction) => {
        type Items = Reading & { readonly items: string | null; readonly last: bigint };
        if (isLocked) await transaction.$executeRawUnsafe(LOCK);
        let from = MIN_PET_ID;
        let first: Reading | undefined;
        for (;;) {
          const [read] = await transaction.$queryRawUnsafe<[Items]>(NEXT_ITEMS, session, from);
          onResponse();
          first ??= read;
          if (read.items === null) return first;
          const cut = Piece.cut((pieces.length === 0 ? '[' : ',') + read.items);
          pieces.push(...cut);
          if (cut.length * PETS_PER_PIECE < PETS_PER_STATEMENT || read.last === MAX_PET_ID) return first;
          from = read.last + 1n;
        }
      },
      { isolationLevel: 'RepeatableRead', timeout: LONGEST_READING_MS },
    );
    const first = await reading.catch((error: unknown) => {
      if (isLocked && sqlstateOf(error) === WRONG_OBJECT_TYPE) return undefined;
      throw error;
    });
    if (!first) return this.#readWhole(session, onResponse, false); // PostgreSQL does not lock a foreign table
    const list = new StockList(pieces);
    const { transactions, witness } = first;
    this.readings++;
    this.#kept = session === null || witness === null ? undefined : { list, session, transactions, witness };
    return list;
  }
}
