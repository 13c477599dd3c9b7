import { type Query, SQLSTATE } from '../../lib/postgres/index.ts';
import { failureOf } from '../../database-errors.ts';
import type { PrismaService } from '../../prisma.service.ts';
import type { Snapshot } from '../../keys/checked-key.ts';
import type { Settings } from '../../settings.ts';
import type { InventoryCounts } from '../inventory-counts.ts';
import type { Comparison, ListAudits } from '../list/list-audits.ts';
import { type NextPage, type Page, type Reading, StockReadings, piecesOf, readWhole } from '../list/stock-readings.ts';
import type { ListRequest } from '../inventory.ts';
import { PETS_PER_PIECE, StockList } from '../list/stock-list.ts';
import { MAX_PET_ID, MIN_PET_ID } from '../item-limits.ts';
import { ListDifferences } from './list-differences.ts';
import { type ChangedPet, patched } from './patched-list.ts';

/** With more changes than this, the stock is read whole, which takes about as long. */
const MOST_CHANGES = 4_096;
/** With an older kept list, the stock is read whole. The marks of unrecorded changes stay for much longer: a day. */
const MOST_AGE_MS = 3_600_000;
/** For reading the stock whole. The event loop is held while the result of one statement is read. */
const PETS_PER_STATEMENT = 6 * PETS_PER_PIECE;
/** Fewer than in a statement of the above, because a cursor gives each pet as a row. */
const PETS_PER_FETCH = 2 * PETS_PER_PIECE;

/*
 * The texts are constants, sent by what Prisma calls unsafe: a template is put together for every list, and costs a
 * quarter of the round trip's CPU time. An item is written as the list has it; its texts need no escape in JSON.
 */

/**
 * Which pets have changed since a kept list, and what became of them; the item of one that is gone is null. $1: the
 * snapshot of the kept list. $2: the life of the server, as the request's snapshot names it.
 *
 * If the witness is that of the kept list, no other pet has changed (docs/decisions/kept-list.md). It is null after too
 * many changes, and after one without a history row. A scalar subquery looks each pet up, because PostgreSQL may plan a
 * join as a scan of the whole table.
 *
 * PostgreSQL takes 0.4 ms of CPU time for one changed pet, 0.7 for 64, 18 for 4,096. To read the stock whole takes 10
 * ms for 10,000 pets, and 66 for 100,000; the service then makes all pieces anew.
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
            FROM (SELECT pet_id,
                         (SELECT '{"petId":' || item.pet_id || ',"quantity":' || item.quantity
                                 || ',"status":"' || item.status || '"}'
                            FROM inventory_item AS item WHERE item.pet_id = changed.pet_id) AS item
                    FROM (SELECT DISTINCT pet_id FROM recent) AS changed) AS changed) AS changes`;

/**
 * The next items of the whole stock, each behind a comma, and the pet to go on with; null at the end. $1: the life of
 * the server. $2: the pet to begin with. PostgreSQL takes 4 to 5 ms of CPU time for it.
 */
const NEXT_ITEMS = `
  SELECT pg_current_snapshot()::text AS transactions,
         stock_witness($1) AS witness,
         coalesce(string_agg(
           ',{"petId":' || item.pet_id || ',"quantity":' || item.quantity || ',"status":"' || item.status || '"}',
           '' ORDER BY pet_id), '') AS items,
         CASE WHEN count(*) = ${PETS_PER_STATEMENT} AND max(pet_id) < ${MAX_PET_ID} THEN max(pet_id) + 1 END AS next
    FROM (SELECT * FROM inventory_item WHERE pet_id >= $2 ORDER BY pet_id LIMIT ${PETS_PER_STATEMENT}) AS item`;

/** The whole stock without the index, scanned and sorted once: PostgreSQL never uses an index for a sample. */
const CURSOR = `
  DECLARE stock NO SCROLL CURSOR FOR
  SELECT ',{"petId":' || item.pet_id || ',"quantity":' || item.quantity || ',"status":"' || item.status || '"}' AS item
    FROM inventory_item AS item TABLESAMPLE SYSTEM (100) ORDER BY pet_id`;
const NEXT_OF_CURSOR = `FETCH ${PETS_PER_FETCH} FROM stock`;
/** As {@link NEXT_ITEMS} has them. */
const CONDITIONS = 'SELECT pg_current_snapshot()::text AS transactions, stock_witness($1) AS witness';

interface Conditions {
  readonly transactions: string;
  /**
   * The server's life and the state of both tables, such as their triggers, as text; null while the history may miss
   * changes. If two readings have equal ones, the history has every change between them.
   */
  readonly witness: string | null;
}

interface Changes extends Conditions {
  readonly changes: readonly ChangedPet[];
}

/** By both clocks: a suspended machine stops the second, and an operator can set the first. */
interface Time {
  readonly date: number;
  readonly uptime: number;
}

/** A list, with the conditions for reusing or patching it. */
interface Kept extends Conditions {
  readonly list: StockList;
  /** A time before its snapshot. */
  readonly at: Time;
  readonly life: string;
}

/**
 * Keeps the list as bytes. While the snapshot stays the same, they are the present list. Afterwards, only the pets that
 * PostgreSQL names have changed. `docs/decisions/kept-list.md` has the proof.
 */
export class ListCache {
  readonly #readings: StockReadings;
  #kept: Kept | undefined;

  constructor(
    settings: Settings,
    private readonly prisma: PrismaService,
    private readonly counts: InventoryCounts,
    private readonly audits: ListAudits,
  ) {
    audits.on('end', ({ result }) => {
      if (result === 'index') this.#kept = undefined; // it was read by this index
    });
    audits.beginComparison = () => this.#comparison();
    this.#readings = new StockReadings(settings, (reading) => this.#listFor(reading));
  }

  /** The list of the request's snapshot, or a later one. */
  listAt(request: ListRequest): StockList | Promise<StockList> {
    const kept = this.#keptAt(request.snapshot);
    if (!kept) return this.#readings.share(request);
    this.counts.reuses++;
    return kept;
  }

  #keptAt({ life, transactions }: Snapshot): StockList | undefined {
    const kept = this.#kept;
    return life !== null && kept?.life === life && kept.transactions === transactions ? kept.list : undefined;
  }

  async #listFor(reading: Reading): Promise<StockList> {
    // The reading that these waited for may have brought what they need.
    const kept = this.#kept?.list;
    const { requests } = reading;
    if (kept && requests.every(({ snapshot }) => this.#keptAt(snapshot))) return kept;
    return this.#read(requests.at(-1)?.snapshot.life ?? null, reading);
  }

  /** The kept list with its changes; the whole stock where these are too many or not all known. */
  async #read(life: string | null, reading: Reading): Promise<StockList> {
    const kept = this.#kept;
    const at = now();
    if (!kept || life === null || this.audits.isIndexDamaged || isTooOld(kept.at, at))
      return this.#readWhole(life, reading);
    const changes = this.prisma.$queryRawUnsafe<Changes[]>(CHANGES, kept.transactions, life);
    const [read] = await changes.catch((error: unknown) => {
      // The lock may be on the history, which a whole reading does not need.
      if (failureOf(error).code === SQLSTATE.lockNotAvailable) return [];
      throw error;
    });
    if (read) reading.onResponse();
    if (this.#kept !== kept) return this.#read(life, reading); // an audit found it wrong meanwhile
    if (read?.witness !== kept.witness) return this.#readWhole(life, reading);
    const list = patched(kept.list, read.changes);
    this.counts.patches++;
    this.#kept = { ...kept, list, transactions: read.transactions, at, life };
    return list;
  }

  async #readWhole(life: string | null, reading: Reading): Promise<StockList> {
    const at = now();
    const { isIndexDamaged } = this.audits;
    const nextPage = isIndexDamaged ? pagesWithoutIndex(life) : pagesByIndex(life);
    const { list, firstPage } = await readWhole(this.prisma, nextPage, reading);
    this.counts.readings++;
    if (this.audits.isIndexDamaged && !isIndexDamaged) return this.#readWhole(life, reading);
    // After a REINDEX during the reading, the next witness differs from the first, and the stock is read again.
    const { transactions, witness } = firstPage;
    this.#kept = life === null || witness === null ? undefined : { list, life, transactions, witness, at };
    return list;
  }

  /** Compares the list that is kept now, with its changes, with the table, read without the index. A wrong one is replaced. */
  #comparison(): Comparison {
    const kept = this.#kept;
    const at = now();
    return async (query) => {
      if (!kept) return { result: 'equal' };
      const [read] = (await query(CHANGES, kept.transactions, kept.life)) as [Changes?];
      if (read?.witness !== kept.witness) return undefined;
      await query(CURSOR);
      const stock = piecesOf(await nextOfCursor(query), () => nextOfCursor(query));
      const differences = new ListDifferences();
      const pieces = await differences
        .between(patched(kept.list, read.changes).pieces, stock)
        .catch((error: unknown) => {
          if (differences.pets === 0) throw error;
          return undefined;
        });
      if (differences.pets === 0) return { result: 'equal' };
      // Without all pieces, the audit has failed since. The next list is read whole.
      this.#kept = pieces && { ...kept, list: new StockList(pieces), transactions: read.transactions, at };
      const finding = `the kept list was wrong and is ${pieces ? 'replaced' : 'dropped'}; find the cause (docs/alerts.md#inventorylistwrong); pets: ${differences.pets}, kept → true: ${differences.shown.join(', ')}`;
      return { result: 'different', finding };
    };
  }
}

function now(): Time {
  return { date: Date.now(), uptime: performance.now() };
}

/** If either clock says so, or if the first was set back. */
function isTooOld(kept: Time, at: Time): boolean {
  return at.date < kept.date || Math.max(at.date - kept.date, at.uptime - kept.uptime) > MOST_AGE_MS;
}

function pagesByIndex(life: string | null): NextPage<Page & Conditions> {
  return async (transaction, from) => {
    const [page] = await transaction.$queryRawUnsafe<[Page & Conditions]>(NEXT_ITEMS, life, from);
    return page;
  };
}

function pagesWithoutIndex(life: string | null): NextPage<Page & Conditions> {
  let conditions: Conditions = { transactions: '', witness: null };
  return async (transaction, from) => {
    if (from === MIN_PET_ID) {
      [conditions] = await transaction.$queryRawUnsafe<[Conditions]>(CONDITIONS, life);
      await transaction.$executeRawUnsafe(CURSOR);
    }
    return { ...conditions, ...(await nextOfCursor((sql) => transaction.$queryRawUnsafe(sql))) };
  };
}

/** The cursor knows where to go on. */
async function nextOfCursor(query: Query): Promise<Page> {
  const rows = (await query(NEXT_OF_CURSOR)) as { item: string }[];
  const isLast = rows.length < PETS_PER_FETCH;
  return { items: rows.map(({ item }) => item).join(''), next: isLast ? null : MAX_PET_ID };
}
