import { Batcher } from '../../database/batcher.js';
import { mayReadAgain, NotApplied, sqlstateOf } from '../../database/database-failure.js';
import { untilDeadline } from '../../database/deadline.js';
import type { PrismaService } from '../../database/prisma.service.js';
import type { Snapshot } from '../../database/snapshot.js';
import type { Settings } from '../../settings.js';
import type { InventoryService } from '../inventory.service.js';
import { type ChangedPet, PETS_PER_PIECE, Piece, StockList } from '../stock-list.js';
import { itemJson } from '../stock-item.js';
import { MAX_PET_ID, MIN_PET_ID } from '../stock.limits.js';

/** What reading tens of millions of pets takes; each of its statements has its own, shorter bound. */
const LONGEST_READING_MS = 25_000;

/** A request whose key check took long still gives the database so long to begin to respond. */
const LEAST_PATIENCE_MS = 400;

const WRONG_OBJECT_TYPE = '42809';
const LOCK_NOT_AVAILABLE = '55P03';

/** Beyond so many changes the stock is read whole, which takes about as long. */
const MOST_CHANGES = 4_096;
/** A kept list as old as that is not brought up to date: the marks of unrecorded changes go after a day. */
const MOST_AGE_MS = 3_600_000;
/** Of a stock that is read whole. What one statement brings holds the event loop while it is read. */
export const PETS_PER_STATEMENT = 6 * PETS_PER_PIECE;

const ITEM = itemJson('item');

/**
 * Which pets have changed since a snapshot ($1; $2 is the server's life), and what became of them. Each is looked up by a
 * scalar subquery, for PostgreSQL may plan a join as a scan of the whole table. A constant text, which Prisma calls unsafe:
 * a template, put together anew for every list, costs a quarter of the round trip's CPU time.
 */
const CHANGES = `
  WITH recent AS MATERIALIZED (
    SELECT pet_id FROM stock_change WHERE changed_in >= pg_snapshot_xmax($1::pg_snapshot)
    UNION ALL
    SELECT pet_id FROM stock_change WHERE changed_in = ANY (ARRAY(SELECT pg_snapshot_xip($1::pg_snapshot)))
    LIMIT ${MOST_CHANGES + 1}
  ), unrecorded AS (
    SELECT FROM unrecorded_change WHERE changed_in >= pg_snapshot_xmax($1::pg_snapshot)
    UNION ALL
    SELECT FROM unrecorded_change WHERE changed_in = ANY (ARRAY(SELECT pg_snapshot_xip($1::pg_snapshot)))
  )
  SELECT pg_current_snapshot()::text AS transactions,
         CASE WHEN (SELECT count(*) FROM recent) <= ${MOST_CHANGES} AND NOT EXISTS (SELECT FROM unrecorded)
              THEN stock_witness($2) END AS witness,
         (SELECT coalesce(json_agg(json_build_object('petId', pet_id::text, 'item', item) ORDER BY pet_id), '[]')
            FROM (SELECT pet_id, (SELECT ${ITEM} FROM inventory_item AS item WHERE item.pet_id = changed.pet_id) AS item
                    FROM (SELECT DISTINCT pet_id FROM recent) AS changed) AS changed) AS changes`;

/**
 * Takes no snapshot, so it comes before a reading's own: one taken before a wait for who empties, rewrites or swaps the table
 * would see neither the old rows nor the new ones.
 */
const LOCK = 'LOCK TABLE inventory_item IN ACCESS SHARE MODE';

/** The next items of the whole stock, and where those after them begin: $1 is the server's life, $2 the pet to begin with. */
const NEXT_ITEMS = `
  SELECT pg_current_snapshot()::text AS transactions, stock_witness($1) AS witness,
         string_agg(',' || ${ITEM}, '' ORDER BY pet_id) AS items,
         CASE WHEN count(*) = ${PETS_PER_STATEMENT} AND max(pet_id) < ${MAX_PET_ID} THEN max(pet_id) + 1 END AS next
    FROM (SELECT * FROM inventory_item WHERE pet_id >= $2 ORDER BY pet_id LIMIT ${PETS_PER_STATEMENT}) AS item`;

interface Call {
  readonly snapshot: Snapshot;
  /** By then the database has to have begun to respond. */
  readonly deadline: number;
}

interface Reading {
  readonly transactions: string;
  /** Null while the history may miss changes. Two equal ones: it has every change between them. */
  readonly witness: string | null;
}

/** A list, and under what it may be used again, or brought up to date. */
interface Kept extends Reading {
  readonly list: StockList;
  /** Not later than its snapshot, by the clock of `Date.now()`, which a suspended machine does not stop. */
  readonly at: number;
  /** The names of the server's life under which sessions may ask for it: a reset of the statistics changes the name. */
  readonly lives: ReadonlySet<string>;
}

/**
 * Keeps the list as bytes, which hold while the snapshot stays the same, and then but for the pets that PostgreSQL says have
 * changed since. `docs/decisions/kept-list.md` has the proof.
 */
export class ListCache {
  readonly #batcher: Batcher<Call, StockList>;
  #kept: Kept | undefined;

  constructor(
    settings: Settings,
    private readonly prisma: PrismaService,
    private readonly counts: InventoryService['counts'],
  ) {
    this.#batcher = new Batcher((calls) => this.#listFor(calls), {
      name: 'list',
      maxCalls: settings.MAX_WAITING_REQUESTS,
      maxWaiting: settings.MAX_WAITING_REQUESTS,
    });
  }

  /** The list of the given snapshot, or a later one. A reading that fails is tried again while the request's deadline allows. */
  at(snapshot: Snapshot, deadline: number): StockList | Promise<StockList> {
    const kept = this.#keptAt(snapshot);
    if (kept) {
      this.counts.reuses++;
      return kept;
    }
    const longest = performance.now() + LONGEST_READING_MS;
    const call = () => this.#batcher.call({ snapshot, deadline }, longest);
    return untilDeadline(deadline - LEAST_PATIENCE_MS, mayReadAgain, call);
  }

  #keptAt({ life, transactions }: Snapshot): StockList | undefined {
    const kept = this.#kept;
    return life !== null && kept?.lives.has(life) && kept.transactions === transactions ? kept.list : undefined;
  }

  async #listFor(calls: readonly Call[]): Promise<StockList[]> {
    const kept = calls.map(({ snapshot }) => this.#keptAt(snapshot));
    if (kept.every((list) => list !== undefined)) return kept;
    const life = calls.at(-1)?.snapshot.life ?? null;
    const leftMs = Math.min(...calls.map(({ deadline }) => deadline)) - performance.now();
    // A million pets take their time to read, but a database that is down or frozen may not.
    const { promise: silence, reject } = Promise.withResolvers<never>();
    const giveUp = () => reject(new NotApplied('the database did not begin to respond in time'));
    const patience = setTimeout(giveUp, Math.max(leftMs, LEAST_PATIENCE_MS));
    try {
      const list = await Promise.race([this.#read(life, () => clearTimeout(patience)), silence]);
      return calls.map(() => list);
    } finally {
      clearTimeout(patience);
    }
  }

  /** The kept list with its changes; the whole stock where these are too many or not all known. */
  async #read(life: string | null, onResponse: () => void): Promise<StockList> {
    const kept = this.#kept;
    const at = Date.now();
    if (!kept || life === null || at - kept.at > MOST_AGE_MS) return this.#readWhole(life, onResponse);
    type Changes = Reading & { readonly changes: readonly ChangedPet[] };
    const changes = this.prisma.$queryRawUnsafe<Changes[]>(CHANGES, kept.transactions, life);
    const [read] = await changes.catch((error: unknown) => {
      if (sqlstateOf(error) === LOCK_NOT_AVAILABLE) return []; // held perhaps on the history, which a whole reading does without
      throw error;
    });
    if (read) onResponse();
    if (read?.witness !== kept.witness) return this.#readWhole(life, onResponse);
    const list = kept.list.with(read.changes);
    this.counts.patches++;
    this.#kept = { ...kept, list, transactions: read.transactions, at, lives: new Set(kept.lives).add(life) };
    return list;
  }

  async #readWhole(life: string | null, onResponse: () => void, isLocked = true): Promise<StockList> {
    const pieces: Piece[] = [];
    const at = Date.now();
    const reading = this.prisma.$transaction(
      async (transaction) => {
        type Items = Reading & { readonly items: string | null; readonly next: bigint | null };
        if (isLocked) await transaction.$executeRawUnsafe(LOCK);
        for (let from = MIN_PET_ID; ;) {
          const [read] = await transaction.$queryRawUnsafe<[Items]>(NEXT_ITEMS, life, from);
          onResponse();
          pieces.push(...Piece.cut((pieces.pop()?.bytes.toString() ?? '') + (read.items ?? '')));
          if (read.next === null) return read;
          from = read.next;
        }
      },
      { isolationLevel: 'RepeatableRead', timeout: LONGEST_READING_MS },
    );
    const read = await reading.catch((error: unknown) => {
      if (isLocked && sqlstateOf(error) === WRONG_OBJECT_TYPE) return undefined;
      throw error;
    });
    if (!read) return this.#readWhole(life, onResponse, false); // PostgreSQL does not lock a foreign table
    const list = new StockList(pieces);
    const { transactions, witness } = read; // the same in each of the statements
    this.counts.readings++;
    this.#kept =
      life === null || witness === null ? undefined : { list, lives: new Set([life]), transactions, witness, at };
    return list;
  }
}
