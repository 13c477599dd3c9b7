import { EventEmitter } from 'node:events';
import { Injectable } from '@nestjs/common';
import { byDeadline, configOfRequests, openConnection, type Query, queryOfClient } from '../../lib/postgres/index.ts';
import { failureOf, sessionOf } from '../../database-errors.ts';
import { Settings } from '../../settings.ts';
import { indexDamage } from './stock-index.ts';
import { LONGEST_READING_MS } from './stock-readings.ts';

/**
 * `equal`, `different`: the kept list and the table were compared. `index`: the index is damaged, so they were not.
 * `none`: the audit failed and has no result.
 */
export const AUDIT_RESULTS = ['equal', 'different', 'index', 'none'] as const;

export interface AuditEnd {
  readonly result: (typeof AUDIT_RESULTS)[number];
  /** For the operator. */
  readonly finding?: string;
}

/** Compares what a service keeps with the stock. Undefined: they cannot be compared. */
export type Comparison = (query: Query) => Promise<AuditEnd | undefined>;

/**
 * Lock first, as a whole reading does. Nobody waits for an audit's statements, so they may take as long as the audit.
 * The role may have a small work_mem, and a temp_file_limit, which only a superuser lifts: its error names it.
 */
const BEGIN = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = ${LONGEST_READING_MS};
  SET LOCAL enable_seqscan = off; SET LOCAL work_mem = '64MB'; LOCK TABLE inventory_item, stock_change, unrecorded_change IN ACCESS SHARE MODE`;

/**
 * Now and then compares what lists are made of with the table itself, in one snapshot: the index by which pets are
 * found, then what the service keeps. An audit opens a connection of its own, so that no request waits for it.
 */
@Injectable()
export class ListAudits extends EventEmitter<{ end: [AuditEnd] }> {
  /** From an audit that compared the list to the next one. Tests shorten both. */
  everyMs = 3_600_000;
  /** From the start, or from any other audit, to the next one. */
  firstMs = 300_000;
  /** As of the last audit. */
  isIndexDamaged = false;
  /** A service that keeps a list sets it. It runs before the audit takes its snapshot: the kept list is no newer. */
  beginComparison: () => Comparison = () => () => Promise.resolve({ result: 'equal' });
  readonly #config: ReturnType<typeof configOfRequests>;
  #isUnderWay = false;
  #endedAt = performance.now();
  #hasCompared = false;

  constructor(settings: Settings) {
    super();
    this.#config = { ...configOfRequests(sessionOf(settings, 'audit')), query_timeout: LONGEST_READING_MS };
  }

  /** Each list calls it; no list waits for an audit. */
  beginIfDue(): void {
    const pauseMs = this.#hasCompared ? this.everyMs : this.firstMs;
    if (!this.#isUnderWay && performance.now() - this.#endedAt >= pauseMs) void this.#run();
  }

  async #run(): Promise<void> {
    this.#isUnderWay = true;
    const end = await this.#audit(this.beginComparison()).catch((error: unknown): AuditEnd => {
      return { result: 'none', finding: `the list could not be audited: ${failureOf(error).words}` };
    });
    this.#isUnderWay = false;
    this.#endedAt = performance.now();
    this.#hasCompared = end?.result === 'equal' || end?.result === 'different';
    if (end?.result !== 'none') this.isIndexDamaged = end?.result === 'index';
    if (end) this.emit('end', end);
  }

  async #audit(compare: Comparison): Promise<AuditEnd | undefined> {
    const client = await openConnection(this.#config);
    const deadline = performance.now() + LONGEST_READING_MS;
    try {
      const query: Query = (...statement) => byDeadline(deadline, queryOfClient(client)(...statement));
      await query(BEGIN);
      const damage = await indexDamage(query);
      const end = damage ? { result: 'index' as const, finding: damage.join('; ') } : await compare(query);
      // A pooler ends its session with a client that leaves in a transaction. A failure here must not hide what was
      // found.
      await query('COMMIT').catch(() => undefined);
      return end;
    } finally {
      void client.end();
    }
  }
}
