import { setTimeout as pause } from 'node:timers/promises';
import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import type { Moment } from '../auth/admission.js';
import { NotApplied } from '../database/not-applied.js';
import { PrismaService } from '../database/prisma.service.js';
import { RoundTrip } from '../database/round-trip.js';
import { Session } from '../database/session.js';
import { Environment } from '../environment.js';
import { PetStatus } from '../generated/prisma/enums.js';
import { StockList } from './stock-list.js';

/** Items in one row of the answer, so that neither side ever holds the list as one giant string. */
const ITEMS_PER_ROW = 10_000;

/** While the list is read, the database has to answer a trivial statement this often and this fast. */
const CHECKED_EVERY_MS = 750;
const ANSWERS_WITHIN_MS = 1_500;

const STATUS_AS_JSON = `CASE status ${Object.values(PetStatus)
  .map((status) => `WHEN '${status}' THEN ',"status":"${status}"}'`)
  .join(' ')} END`;

/**
 * One statement, hence one snapshot, for all rows. The first part walks the primary key to find where each
 * run of items begins; the second writes each run as JSON. For a million items `concat` and a CASE take a third
 * less than `||` and the enum's own text.
 */
const READ_LIST = `
  WITH RECURSIVE bound (first) AS (
    (SELECT pet_id FROM inventory_item ORDER BY pet_id LIMIT 1)
    UNION ALL
    SELECT (SELECT pet_id FROM inventory_item WHERE pet_id >= first ORDER BY pet_id OFFSET ${ITEMS_PER_ROW} LIMIT 1)
      FROM bound WHERE first IS NOT NULL
  ), run AS (
    SELECT first, lead(first) OVER (ORDER BY first) AS next FROM bound WHERE first IS NOT NULL
  )
  SELECT pg_current_snapshot()::text,
         (SELECT string_agg(concat('{"petId":', pet_id, ',"quantity":', quantity, ${STATUS_AS_JSON}), ',')
            FROM (SELECT * FROM inventory_item
                   WHERE pet_id BETWEEN run.first AND coalesce(run.next - 1, 9223372036854775807)
                   ORDER BY pet_id) AS item)
    FROM (VALUES (1)) AS always LEFT JOIN run ON true
   ORDER BY run.first`;

interface Kept {
  readonly list: StockList;
  readonly moment: Moment;
}

/**
 * Keeps the list as bytes and lets PostgreSQL say whether they still hold: as long as a request's moment
 * equals the one that the list was read at, reading again would give the same bytes.
 */
@Injectable()
export class KeptList implements OnApplicationShutdown {
  readonly #session: Session;
  readonly #trip: RoundTrip<Moment, StockList>;
  #kept: Kept | undefined;
  #readings = 0;
  #reuses = 0;

  constructor(
    private readonly environment: Environment,
    private readonly prisma: PrismaService,
  ) {
    const { LIST_TIMEOUT_MS } = environment;
    this.#session = new Session(environment, 'list', {
      max: 2, // one more while the other hangs in a reading that was given up
      statement_timeout: LIST_TIMEOUT_MS,
      query_timeout: LIST_TIMEOUT_MS,
    });
    this.#trip = new RoundTrip((moments) => this.#readFor(moments), {
      name: 'list',
      maxCalls: environment.MAX_WAITING_REQUESTS,
      maxWaiting: environment.MAX_WAITING_REQUESTS,
    });
  }

  /**
   * The list as it was at the given moment or later, read anew only when something was committed since.
   *
   * @param arrivedAt of the request, on the clock of `performance.now()`
   * @throws what the database failed with
   */
  at(moment: Moment, arrivedAt: number): StockList | Promise<StockList> {
    const held = this.#holding(moment);
    if (held) {
      this.#reuses++;
      return held;
    }
    return this.#trip.call(moment, arrivedAt + this.environment.LIST_TIMEOUT_MS);
  }

  /** Times that the list was read from the database. */
  get readings(): number {
    return this.#readings;
  }

  /** Requests that were answered without reading it. */
  get reuses(): number {
    return this.#reuses;
  }

  /** Length of what is kept, not compressed. */
  get bytes(): number {
    return this.#kept?.list.bytes.length ?? 0;
  }

  async onApplicationShutdown(): Promise<void> {
    await this.#session.close();
  }

  #holding({ session, snapshot }: Moment): StockList | undefined {
    const kept = this.#kept;
    if (session === null || kept?.moment.session !== session || kept.moment.snapshot !== snapshot) return undefined;
    return kept.list;
  }

  async #readFor(moments: readonly Moment[]): Promise<StockList[]> {
    const held = moments.map((moment) => this.#holding(moment));
    if (held.every((list) => list !== undefined)) return held;
    // Remembered is the session that was seen before the statement is sent: seen again later, it has lived all the while.
    const session = moments.at(-1)?.session ?? null;
    const list = await this.#whileAlive(this.#read(session));
    return moments.map(() => list);
  }

  async #read(session: string | null): Promise<StockList> {
    const rows = await this.#session.query<[snapshot: string, items: string | null]>(READ_LIST, []);
    const [[snapshot] = ['']] = rows;
    const list = new StockList(asJsonArray(rows.map(([, items]) => items ?? '')));
    this.#kept = { list, moment: { session, snapshot } };
    this.#readings++;
    return list;
  }

  /** A million pets take seconds to read, so the reading may take long; a database that is down or frozen may not. */
  async #whileAlive<T>(reading: Promise<T>): Promise<T> {
    const watched = new AbortController();
    const watch = async (): Promise<never> => {
      for (;;) {
        await pause(CHECKED_EVERY_MS, undefined, { signal: watched.signal });
        const answer = await Promise.race([this.prisma.$queryRaw`SELECT 1`, pause(ANSWERS_WITHIN_MS, undefined)]);
        if (answer === undefined) throw new NotApplied('the database stopped answering while the list was read');
      }
    };
    try {
      return await Promise.race([reading, watch()]);
    } finally {
      watched.abort();
      reading.catch(() => undefined); // when the watch has ended the wait before
    }
  }
}

/** ASCII throughout, so a character is a byte. */
function asJsonArray(rows: readonly string[]): Buffer {
  const bytes = Buffer.allocUnsafeSlow(rows.reduce((sum, row) => sum + row.length + 1, 1));
  let at = 0;
  for (const row of rows) {
    at += bytes.write(at === 0 ? '[' : ',', at, 'latin1');
    at += bytes.write(row, at, 'latin1');
  }
  bytes.write(']', at, 'latin1');
  return bytes;
}
