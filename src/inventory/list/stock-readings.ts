import { Batcher, NotApplied, retryUntilDeadline, SQLSTATE } from '../../lib/postgres/index.ts';
import { failureOf, mayReadAgain, readFailure } from '../../database-errors.ts';
import type { PrismaService } from '../../prisma.service.ts';
import type { Prisma } from '../../generated/prisma/client.ts';
import type { Settings } from '../../settings.ts';
import type { ListRequest } from '../inventory.ts';
import { Piece, StockList } from './stock-list.ts';
import { MIN_PET_ID } from '../item-limits.ts';

/** What reading tens of millions of pets takes; each of its statements has its own, shorter bound. */
export const LONGEST_READING_MS = 25_000;

/** Even after a long key check, the database has at least this long to begin to respond. */
const LEAST_PATIENCE_MS = 400;

/** One reading, for all the requests that share it. */
export interface Reading {
  readonly requests: readonly ListRequest[];
  /** The newest list, if a response or the service still holds it. */
  readonly last: StockList | undefined;
  /** To be called when the database begins to respond. */
  readonly onResponse: () => void;
}

/**
 * One reading of the stock at a time, besides those that were given up: requests that come during it share the next
 * one.
 */
export class StockReadings {
  readonly #batcher: Batcher<ListRequest, StockList>;
  #last: WeakRef<StockList> | undefined;

  constructor(
    settings: Settings,
    private readonly read: (reading: Reading) => Promise<StockList>,
  ) {
    this.#batcher = new Batcher((requests) => this.#readFor(requests), {
      name: 'list',
      maxCalls: settings.MAX_WAITING_REQUESTS,
      maxWaiting: settings.MAX_WAITING_REQUESTS,
    });
  }

  /** Shares the next reading. One that fails is tried again while the request's deadline allows. @throws NotApplied */
  async share(request: ListRequest): Promise<StockList> {
    const longest = performance.now() + LONGEST_READING_MS;
    const call = () => this.#batcher.submit(request, longest);
    try {
      return await retryUntilDeadline(request.deadline - LEAST_PATIENCE_MS, mayReadAgain, call);
    } catch (error) {
      throw readFailure(error);
    }
  }

  async #readFor(requests: readonly ListRequest[]): Promise<StockList[]> {
    const leftMs = Math.min(...requests.map(({ deadline }) => deadline)) - performance.now();
    // A million pets take their time to read, but a database that is down or frozen may not.
    const { promise: silence, reject } = Promise.withResolvers<never>();
    const giveUp = () => reject(new NotApplied('the database did not begin to respond in time'));
    const patience = setTimeout(giveUp, Math.max(leftMs, LEAST_PATIENCE_MS));
    const reading = { requests, last: this.#last?.deref(), onResponse: () => clearTimeout(patience) };
    try {
      const list = await Promise.race([this.read(reading), silence]);
      this.#last = new WeakRef(list);
      return requests.map(() => list);
    } finally {
      clearTimeout(patience);
    }
  }
}

/** The next items of the stock as JSON, each with a comma before it, and the pet to go on with; null at the end. */
export interface Page {
  readonly items: string;
  readonly next: bigint | null;
}

/** Reads a page from this pet on; {@link MIN_PET_ID} is the first. */
export type NextPage<Read extends Page> = (transaction: Prisma.TransactionClient, from: bigint) => Promise<Read>;

/**
 * Lock first: a snapshot taken before waiting for TRUNCATE or a swap would see an empty table. LOCK itself takes no
 * snapshot.
 */
const LOCK = 'LOCK TABLE inventory_item IN ACCESS SHARE MODE';

/**
 * The whole stock of one moment, page by page, and the first page. Pieces that equal those of the last list are shared
 * with it, so that readers of both do not hold them twice.
 */
export async function readWhole<Read extends Page>(
  prisma: PrismaService,
  nextPage: NextPage<Read>,
  { last, onResponse }: Reading,
): Promise<{ list: StockList; firstPage: Read }> {
  const read = (isLocked: boolean) =>
    prisma.$transaction(
      async (transaction) => {
        if (isLocked) await transaction.$executeRawUnsafe(LOCK);
        const firstPage = await nextPage(transaction, MIN_PET_ID);
        onResponse();
        const pieces: Piece[] = [];
        for await (const piece of piecesOf(firstPage, (from) => nextPage(transaction, from))) pieces.push(piece);
        return { list: new StockList(pieces).sharedWith(last), firstPage };
      },
      { isolationLevel: 'RepeatableRead', timeout: LONGEST_READING_MS },
    );
  return read(true).catch((error: unknown) => {
    if (failureOf(error).code === SQLSTATE.wrongObjectType) return read(false); // PostgreSQL does not lock a foreign table
    throw error;
  });
}

/**
 * The text is cut into pieces when it is longer than this. After a cut, the unfinished last piece is built anew with
 * the next text.
 */
const CUT_AT_LENGTH = 2 ** 18;

/** The pieces of the whole stock, each as soon as no further page can go on with it. */
export async function* piecesOf(page: Page, nextPage: (from: bigint) => Promise<Page>): AsyncGenerator<Piece> {
  let text = page.items;
  for (let from = page.next; from !== null;) {
    if (text.length > CUT_AT_LENGTH) {
      const pieces = Piece.cut(text);
      text = pieces.pop()?.bytes.toString() ?? '';
      yield* pieces;
    }
    const { items, next }: Page = await nextPage(from);
    text += items;
    from = next;
  }
  yield* Piece.cut(text);
}
