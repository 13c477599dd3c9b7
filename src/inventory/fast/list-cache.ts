import { Batcher } from '../../database/batcher.js';
import { mayReadAgain, NotApplied, sqlstateOf } from '../../database/database-failure.js';
import { untilDeadline } from '../../database/deadline.js';
import type { PrismaService } from '../../database/prisma.service.js';
import type { Snapshot } from '../../database/session.js';
import type { Settings } from '../../settings.js';
import type { InventoryService } from '../inventory.service.js';
import { type ChangedPet, PETS_PER_PIECE, Piece, StockList } from '../stock-list.js';
import { MAX_PET_ID, MIN_PET_ID } from '../stock.limits.js';

/** What reading tens of millions of pets takes; each of its statements has its own, shorter bound. */
const LONGEST_READING_MS = 25_000;

/** A request whose key check took long still gives the database so long to begin to respond. */
const LEAST_PATIENCE_MS = 400;

const WRONG_OBJECT_TYPE = '42809';
const LOCK_NOT_AVAILABLE = '55P03';

/** Beyond so many changes the stock is read whole, which takes about as long. */
const MOST_CHANGES = 4_096;
/** Of a stock that is read whole. What one statement brings holds the event loop while it is read. */
const PETS_PER_STATEMENT = 6 * PETS_PER_PIECE;

/**
 * NULL while the history may miss changes. Otherwise a text; two equal texts mean that it missed none between them: both
 * tables are ordinary ones that nothing stands in front of; both triggers are on, and never were off; the columns and the
 * words for a status are the same; and the session, whose token is the statement's parameter, still lives on this very server.
 */
const witness = (session: `$${number}`) => `(
  SELECT string_agg(fact, ' ' ORDER BY fact) FROM (
    SELECT concat_ws(' ', oid, xmin), (relkind = 'r' AND NOT (relrowsecurity OR relhassubclass OR relhasrules))::int
      FROM pg_class WHERE oid IN ('inventory_item'::regclass, 'stock_change'::regclass)
    UNION ALL SELECT concat_ws(' ', tgname, tgenabled::text, xmin),
        (tgname = 'inventory_item_history' AND tgenabled IN ('O', 'A') OR tgname = 'inventory_item_replicated' AND tgenabled = 'R')::int
      FROM pg_trigger WHERE tgrelid = 'inventory_item'::regclass
    UNION ALL SELECT concat_ws(' ', tgname, xmin), -1 -- before each row that is inserted, it may keep the row out
      FROM pg_trigger WHERE tgrelid = 'stock_change'::regclass AND tgtype & 7 = 7 AND tgenabled <> 'D'
    UNION ALL SELECT concat_ws(' ', attname, xmin), 0
      FROM pg_attribute WHERE attrelid = 'inventory_item'::regclass AND attnum > 0
    UNION ALL SELECT concat_ws(' ', enumlabel, xmin), 0 FROM pg_enum WHERE enumtypid = 'pet_status'::regtype
    UNION ALL SELECT 'session', 1 FROM pg_stat_get_activity(split_part(${session}::text, ' ', 1)::int)
       WHERE extract(epoch FROM backend_start)::text = split_part(${session}::text, ' ', 2)
  ) AS facts (fact, sound) HAVING sum(sound) = 5)`; // two tables, two triggers, and the session

const ITEM = `'{"petId":' || item.pet_id || ',"quantity":' || item.quantity || ',"status":"' || item.status || '"}'`;

/**
 * Which pets have changed since a snapshot ($1; $2 is the session's token), and what became of them. Each is looked up by a
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
              THEN ${witness('$2')} END AS witness,
         (SELECT coalesce(json_agg(json_build_object('petId', pet_id::text, 'item', item) ORDER BY pet_id), '[]')
            FROM (SELECT pet_id, (SELECT ${ITEM} FROM inventory_item AS item WHERE item.pet_id = changed.pet_id) AS item
                    FROM (SELECT DISTINCT pet_id FROM recent) AS changed) AS changed) AS changes`;

/**
 * Takes no snapshot, so it comes before a reading's own: one taken before a wait for who empties, rewrites or swaps the table
 * would see neither the old rows nor the new ones.
 */
const LOCK = 'LOCK TABLE inventory_item IN ACCESS SHARE MODE';

/** The next items of the whole stock: $1 is the session's token, $2 the pet to begin with. */
const NEXT_ITEMS = `
  SELECT pg_current_snapshot()::text AS transactions, ${witness('$1')} AS witness,
         string_agg(${ITEM}, ',' ORDER BY pet_id) AS items, max(pet_id) AS last
    FROM (SELECT * FROM inventory_item WHERE pet_id >= $2 ORDER BY pet_id LIMIT ${PETS_PER_STATEMENT}) AS item`;

interface Call {
  readonly snapshot: Snapshot;
  /** By then the database has to have begun to respond. */
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

  #keptAt({ session, transactions }: Snapshot): StockList | undefined {
    const kept = this.#kept;
    return session !== null && kept?.session === session && kept.transactions === transactions ? kept.list : undefined;
  }

  async #listFor(calls: readonly Call[]): Promise<StockList[]> {
    const kept = calls.map(({ snapshot }) => this.#keptAt(snapshot));
    if (kept.every((list) => list !== undefined)) return kept;
    const session = calls.at(-1)?.snapshot.session ?? null;
    const leftMs = Math.min(...calls.map(({ deadline }) => deadline)) - performance.now();
    // A million pets take their time to read, but a database that is down or frozen may not.
    const { promise: silence, reject } = Promise.withResolvers<never>();
    const giveUp = () => reject(new NotApplied('the database did not begin to respond in time'));
    const patience = setTimeout(giveUp, Math.max(leftMs, LEAST_PATIENCE_MS));
    try {
      const list = await Promise.race([this.#read(session, () => clearTimeout(patience)), silence]);
      return calls.map(() => list);
    } finally {
      clearTimeout(patience);
    }
  }

  /** The kept list with its changes; the whole stock where these are too many, too great or not all known. */
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
    this.counts.patches++;
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
        for (;;) {
          const [read] = await transaction.$queryRawUnsafe<[Items]>(NEXT_ITEMS, session, from);
          onResponse();
          if (read.items === null) return read;
          const cut = Piece.cut((pieces.length === 0 ? '[' : ',') + read.items);
          pieces.push(...cut);
          if (cut.length * PETS_PER_PIECE < PETS_PER_STATEMENT || read.last === MAX_PET_ID) return read;
          from = read.last + 1n;
        }
      },
      { isolationLevel: 'RepeatableRead', timeout: LONGEST_READING_MS },
    );
    const read = await reading.catch((error: unknown) => {
      if (isLocked && sqlstateOf(error) === WRONG_OBJECT_TYPE) return undefined;
      throw error;
    });
    if (!read) return this.#readWhole(session, onResponse, false); // PostgreSQL does not lock a foreign table
    const list = new StockList(pieces);
    const { transactions, witness } = read; // the same in each of the statements
    this.counts.readings++;
    this.#kept = session === null || witness === null ? undefined : { list, session, transactions, witness };
    return list;
  }
}
