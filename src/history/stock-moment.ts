import type { Client } from 'pg';
import { Failure, queryOfClient } from '../lib/postgres/index.ts';
import { SHOWN_AT_MOST } from '../safe-text.ts';
import { refuseUnknown, waitForOpenWriters, waitForTransactionsBefore } from './open-writers.ts';

/** What SQL says of a moment. */
export interface Moment {
  readonly name: string;
  /** Whether a row of stock_change lies after the moment. */
  readonly isAfter: string;
  /** The same of a row of unrecorded_change. */
  readonly isUnrecordedAfter: string;
  /** The lowest id of those rows; null if there is none. */
  readonly firstAfter: string;
  /** Whether pruned changes are missing for this moment. */
  readonly isPruned: string;
  /** The earliest moment for which none is missing: a time, or words. */
  readonly earliest: string;
}

const UNRECORDED = `
after this moment, changes were made without history, which this file cannot know; "inventory history --verify" names their pets`;
const WAITING = 'waiting for open transactions, which may still commit changes that count';
/** A shorter wait is not worth a line. */
const WAITING_SHOWN_AFTER_MS = 2_000;

/**
 * Waits until the changes that count are all visible.
 *
 * @param at the id of a change, or a time that has come
 * @param tell gets a line if it takes long
 */
export async function waitForMoment(client: Client, at: bigint | Date, tell: (line: string) => void): Promise<Moment> {
  const query = queryOfClient(client);
  const timer = setTimeout(tell, WAITING_SHOWN_AFTER_MS, WAITING);
  try {
    if (typeof at === 'bigint') {
      refuseUnknown(at, await waitForOpenWriters(query));
      return momentOfId(at);
    }
    await waitForTransactionsBefore(query, endOf(at));
    return momentOfTime(at);
  } finally {
    clearTimeout(timer);
  }
}

function momentOfId(id: bigint): Moment {
  return {
    name: `change ${id}`,
    isAfter: `id > ${id}`,
    isUnrecordedAfter: `changed_at >= coalesce((SELECT max(changed_at) FROM stock_change WHERE id = ${id}), '-infinity')`,
    firstAfter: String(id + 1n),
    isPruned: `last_id > ${id}`,
    earliest: `'change ' || last_id`,
  };
}

/** Commands show times in milliseconds, so all changes of one millisecond count, or none. */
const endOf = (time: Date) => `'${new Date(time.getTime() + 1).toISOString()}'::timestamptz`;

/** `id + 0` keeps PostgreSQL from walking along the index of the ids. */
function momentOfTime(time: Date): Moment {
  const isAfter = `changed_at >= ${endOf(time)}`;
  return {
    name: time.toISOString(),
    isAfter,
    isUnrecordedAfter: isAfter,
    firstAfter: `(SELECT min(id + 0) FROM stock_change WHERE ${isAfter})`,
    isPruned: `last_changed_at >= ${endOf(time)}`,
    earliest: 'last_changed_at',
  };
}

/**
 * The stock at a moment: for each pet, the state before its first change (by id) after the moment, or else its present
 * state. Neither transaction ids nor the order of commits count, so a restored history serves.
 *
 * @param client in a transaction with one snapshot
 * @returns SQL that takes the place of inventory_item, and the last change that counts, in words
 * @throws {Failure} when the history does not reach back to it, or is broken
 */
export async function stockAt(client: Client, moment: Moment): Promise<{ stock: string; message: string }> {
  const { name, isAfter } = moment;
  const { earliest, first, lastBefore, lacksChanges } = await findFirst(client, moment);
  if (earliest !== null)
    throw new Failure(
      `the history does not tell the stock at ${name}, because changes were pruned; the earliest moment is ${typeof earliest === 'string' ? earliest : earliest.toISOString()}`,
    );
  // A pet's changes lie far apart on the disk: read by the index of the pets, ten million take minutes.
  await client.query(`SET LOCAL work_mem = '64MB'; SET LOCAL enable_indexscan = off`);
  const { broken, pets, last, changedAt } = await checkChains(client, isAfter, first, lastBefore);
  if (broken > 0) {
    const named = `${pets.join(', ')}${broken > pets.length ? ', …' : ''}`;
    throw new Failure(
      `the history does not tell the stock at ${name}: of ${broken} pets, the changes after it do not link up to the present stock: ${named}
"inventory history --verify" tells more`,
    );
  }
  const lastChange =
    last === '0'
      ? 'no change counts'
      : `the last change that counts is ${last}, ${changedAt?.toISOString() ?? 'pruned'}`;
  const later = `
    SELECT DISTINCT ON (pet_id) pet_id, quantity_before, status_before
      FROM stock_change WHERE id >= ${first} AND ${isAfter} ORDER BY pet_id, id`;
  const stock = `(
    SELECT pet_id, CASE WHEN later.pet_id IS NULL THEN item.quantity ELSE later.quantity_before END AS quantity,
           CASE WHEN later.pet_id IS NULL THEN item.status ELSE later.status_before END AS status
      FROM inventory_item AS item FULL JOIN (${later}) AS later USING (pet_id)
     WHERE later.pet_id IS NULL OR later.quantity_before IS NOT NULL) AS inventory_item`;
  return { stock, message: `stock at ${name}: ${lastChange}${lacksChanges ? UNRECORDED : ''}` };
}

interface First {
  readonly earliest: string | Date | null;
  readonly first: string;
  readonly lastBefore: string;
  readonly lacksChanges: boolean;
}

async function findFirst(client: Client, { isPruned, earliest, firstAfter, isUnrecordedAfter }: Moment) {
  const { rows } = await client.query<First>(`
    WITH change AS MATERIALIZED (
      SELECT coalesce(${firstAfter}, (SELECT max(id) + 1 FROM stock_change), 1) AS first),
    pruned AS (
      SELECT max(last_id) AS last_id, max(last_changed_at) AS last_changed_at FROM stock_change_pruned)
    SELECT CASE WHEN ${isPruned} THEN ${earliest} END AS earliest, first,
           greatest((SELECT max(id) FROM stock_change WHERE id < first), last_id) AS "lastBefore",
           EXISTS (SELECT FROM unrecorded_change WHERE ${isUnrecordedAfter}) AS "lacksChanges"
      FROM change, pruned`);
  return (rows as [First])[0];
}

interface Chains {
  /** A number of pets, and the first of them. */
  readonly broken: number;
  readonly pets: readonly string[];
  /** The last change that counts, 0 if none does; and when it was, if it is not pruned. */
  readonly last: string;
  readonly changedAt: Date | null;
}

/** Whether each pet's changes from its first one after the moment on link up to its present stock. */
async function checkChains(client: Client, isAfter: string, first: string, lastBefore: string): Promise<Chains> {
  const { rows } = await client.query<Chains>(`
    WITH change AS (
      SELECT pet_id, id, quantity_after, status_after, bool_or(${isAfter}) OVER chain AS is_after,
             lead(id) OVER chain IS NULL AS is_last,
             lead(quantity_before) OVER chain AS quantity_next, lead(status_before) OVER chain AS status_next
        FROM stock_change WHERE id >= ${first} WINDOW chain AS (PARTITION BY pet_id ORDER BY id)),
    checked AS (
      SELECT change.pet_id, change.id, change.is_after,
             change.is_after AND (change.quantity_after, change.status_after)
               IS DISTINCT FROM (CASE WHEN change.is_last THEN item.quantity ELSE change.quantity_next END,
                                 CASE WHEN change.is_last THEN item.status ELSE change.status_next END) AS is_broken
        FROM change LEFT JOIN inventory_item AS item ON item.pet_id = change.pet_id AND change.is_last),
    summary AS (
      SELECT (count(DISTINCT pet_id) FILTER (WHERE is_broken))::integer AS broken,
             (array_agg(DISTINCT pet_id ORDER BY pet_id) FILTER (WHERE is_broken))[:${SHOWN_AT_MOST}]::text[] AS pets,
             greatest(${lastBefore}, max(id) FILTER (WHERE NOT is_after)) AS last
        FROM checked)
    SELECT broken, pets, last, (SELECT changed_at FROM stock_change WHERE id = last LIMIT 1) AS "changedAt"
      FROM summary`);
  return (rows as [Chains])[0];
}
