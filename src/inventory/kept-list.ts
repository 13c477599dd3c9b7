import { setTimeout as pause } from 'node:timers/promises';
import { Injectable, type OnApplicationShutdown } from '@nestjs/common';
import type { Moment } from '../auth/admission.js';
import { NotApplied } from '../database/not-applied.js';
import { PrismaService } from '../database/prisma.service.js';
import { RoundTrip } from '../database/round-trip.js';
import { Session } from '../database/session.js';
import { Environment } from '../environment.js';
import { ListReading } from './list.reading.js';
import type { StockList } from './stock-list.js';

/** By how many bytes a list may grow until the next reading without being copied. */
const ROOM_TO_GROW = 65_536;

/** While the list is read, the database has to answer a trivial statement this often and this fast. */
const CHECKED_EVERY_MS = 750;
const ANSWERS_WITHIN_MS = 1_500;
/** The first time it has until the request's deadline, or this long where the admission has left less. */
const LEAST_PATIENCE_MS = 400;

interface Call {
  readonly moment: Moment;
  /** Of the request, on the clock of `performance.now()`. */
  readonly deadline: number;
}

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
  readonly #trip: RoundTrip<Call, StockList>;
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
    this.#trip = new RoundTrip((calls) => this.#readFor(calls), {
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
    const { LIST_TIMEOUT_MS, REQUEST_DEADLINE_MS } = this.environment;
    return this.#trip.call({ moment, deadline: arrivedAt + REQUEST_DEADLINE_MS }, arrivedAt + LIST_TIMEOUT_MS);
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

  async #readFor(calls: readonly Call[]): Promise<StockList[]> {
    const held = calls.map(({ moment }) => this.#holding(moment));
    if (held.every((list) => list !== undefined)) return held;
    // Remembered is the session that was seen before the statement is sent: seen again later, it has lived all the while.
    const session = calls.at(-1)?.moment.session ?? null;
    const list = await this.#whileAlive(this.#read(session), Math.min(...calls.map(({ deadline }) => deadline)));
    return calls.map(() => list);
  }

  async #read(session: string | null): Promise<StockList> {
    const reading = await this.#session.run(new ListReading(this.bytes + ROOM_TO_GROW));
    const list = reading.list();
    this.#kept = { list, moment: { session, snapshot: reading.snapshot } };
    this.#readings++;
    return list;
  }

  /** A million pets take seconds to read, so the reading may take long; a database that is down or frozen may not. */
  async #whileAlive<T>(reading: Promise<T>, deadline: number): Promise<T> {
    const watched = new AbortController();
    const watch = async (): Promise<never> => {
      const patienceMs = Math.max(LEAST_PATIENCE_MS, deadline - performance.now());
      let pauseMs = Math.min(CHECKED_EVERY_MS, patienceMs / 2);
      for (let answersWithinMs = patienceMs - pauseMs; ; answersWithinMs = ANSWERS_WITHIN_MS) {
        await pause(pauseMs, undefined, { signal: watched.signal });
        pauseMs = CHECKED_EVERY_MS;
        const answer = await Promise.race([this.prisma.$queryRaw`SELECT 1`, pause(answersWithinMs, undefined)]);
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
