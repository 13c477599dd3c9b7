import { AS_OWNER } from '../../database-errors.ts';
import { MIN_PET_ID } from '../item-limits.ts';

/**
 * Whether the index leads to each row of the table (no index has a `ctid`, so it is the row's), and has no more entries
 * than that. The table is read without the index: PostgreSQL never uses one for a sample, and this sample is all of it.
 */
const INDEX = `
  SELECT count(*) AS pets, (SELECT count(*) FROM inventory_item WHERE pet_id >= ${MIN_PET_ID}) AS entries,
         count(*) FILTER (WHERE (SELECT found.ctid FROM inventory_item AS found WHERE found.pet_id = item.pet_id LIMIT 1)
                                IS DISTINCT FROM item.ctid) AS lost,
         ${AS_OWNER} AS "asOwner"
    FROM inventory_item AS item TABLESAMPLE SYSTEM (100)`;

/**
 * Compares the index by which pets are found with the table.
 *
 * @param query in a transaction with `enable_seqscan = off`: else, PostgreSQL may read a small table without its index
 * @returns what is wrong, and what to do, a line each
 */
export async function indexDamage(
  query: (sql: string) => Promise<unknown>,
): Promise<[string, ...string[]] | undefined> {
  const [found] = (await query(INDEX)) as [Readonly<Record<'pets' | 'entries' | 'lost' | 'asOwner', string>>];
  const { pets, entries, lost, asOwner } = found;
  if (pets === entries && lost === '0') return undefined;
  return [
    'an index of inventory_item is damaged',
    `${asOwner}, until it succeeds: REINDEX TABLE inventory_item`,
    'meanwhile requests can get 503',
    `pets in the index: ${entries}, in the table: ${pets}, of which the index does not find ${lost}`,
  ];
}
