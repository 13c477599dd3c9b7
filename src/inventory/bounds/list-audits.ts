import { EventEmitter } from 'node:events';
import { failureOf } from '../../database/database-failure.js';
import type { PrismaService } from '../../database/prisma.service.js';
import type { Prisma } from '../../generated/prisma/client.js';
import type { AuditEnd, InventoryAudits } from '../inventory-counts.js';
import { MIN_PET_ID } from '../stock-limits.js';
import { LONGEST_READING_MS } from './stock-readings.js';

/** Compares what a service keeps with the stock. Undefined: they cannot be compared. */
export type Comparison = (transaction: Prisma.TransactionClient) => Promise<AuditEnd | undefined>;

const LOCK = 'LOCK TABLE inventory_item, stock_change, unrecorded_change IN ACCESS SHARE MODE';

/** Texts of their own, so that no kept plan serves. Only one kind of scan is left to each. */
const COUNTS = {
  table: ['seqscan', 'SELECT count(*) AS pets FROM inventory_item'],
  index: ['indexscan', `SELECT count(*) AS pets FROM inventory_item WHERE pet_id >= ${MIN_PET_ID}`],
} as const;

/** Lets a session use this kind of scan only, until the transaction or its savepoint ends. */
export function onlyBy(scan: 'seqscan' | 'indexscan'): string {
  const settings = ['seqscan', 'indexscan', 'indexonlyscan', 'bitmapscan'].map(
    (each) => `set_config('enable_${each}', '${each === scan ? 'on' : 'off'}', true)`,
  );
  return `SELECT ${settings.join(', ')}`;
}

/**
 * Now and then compares what lists are made of with the table itself, in one snapshot: the index by which they are read, then what
 * the service keeps. No list waits for that.
 */
export class ListAudits extends EventEmitter<{ end: [AuditEnd] }> implements InventoryAudits {
  everyMs = 3_600_000;
  againMs = 300_000;
  /** As of the last audit. */
  indexLacksPets = false;
  #isUnderWay = false;
  #endedAt = Date.now();
  #isDueAgain = true;

  /** @param begin runs before the audit's snapshot is taken: what is kept then is no newer */
  constructor(
    private readonly prisma: PrismaService,
    private readonly begin: () => Comparison = () => () => Promise.resolve({ result: 'equal' }),
  ) {
    super();
  }

  beginIfDue(): void {
    const pauseMs = this.#isDueAgain ? this.againMs : this.everyMs;
    if (!this.#isUnderWay && Date.now() - this.#endedAt >= pauseMs) void this.#run();
  }

  async #run(): Promise<void> {
    this.#isUnderWay = true;
    const compare = this.begin();
    const end = await this.prisma
      .$transaction((transaction) => audit(transaction, compare), {
        isolationLevel: 'RepeatableRead',
        timeout: LONGEST_READING_MS,
      })
      .catch((error: unknown): AuditEnd => {
        return { result: 'none', finding: `the list could not be audited: ${failureOf(error).words}` };
      });
    this.#isUnderWay = false;
    this.#endedAt = Date.now();
    this.#isDueAgain = end?.result !== 'equal' && end?.result !== 'different';
    if (end?.result !== 'none') this.indexLacksPets = end?.result === 'index';
    if (end) this.emit('end', end);
  }
}

async function audit(transaction: Prisma.TransactionClient, compare: Comparison): Promise<AuditEnd | undefined> {
  await transaction.$executeRawUnsafe(LOCK);
  await transaction.$executeRawUnsafe('SAVEPOINT counts');
  const pets = { table: 0n, index: 0n };
  for (const what of ['table', 'index'] as const) {
    const [scan, count] = COUNTS[what];
    await transaction.$queryRawUnsafe(onlyBy(scan));
    const [row] = await transaction.$queryRawUnsafe<[{ pets: bigint }]>(count);
    pets[what] = row.pets;
  }
  await transaction.$executeRawUnsafe('ROLLBACK TO counts');
  if (pets.table === pets.index) return compare(transaction);
  const finding = `an index of inventory_item is damaged; run REINDEX TABLE inventory_item (docs/alerts.md#inventorylistwrong); pets in the index: ${pets.index}, in the table: ${pets.table}`;
  return { result: 'index', finding };
}
