import type { Query } from './function-repair.ts';

type Right = readonly [table: string, privilege: string];

/** Without these, lists or updates fail. The key check finds its own. */
export const RIGHTS_OF_REQUESTS: readonly Right[] = [
  ['inventory_item', 'SELECT'],
  ['inventory_item', 'UPDATE'],
  ['stock_change', 'SELECT'],
  ['stock_change', 'INSERT'],
];

/** All that the service needs, from its start on. */
export const RIGHTS_OF_SERVICE: readonly Right[] = [
  ...RIGHTS_OF_REQUESTS,
  ['unrecorded_change', 'SELECT'],
  ['api_key', 'SELECT'],
  ['api_key', 'UPDATE'],
  ['_prisma_migrations', 'SELECT'],
];

/** @returns which rights the role lacks, with the GRANT for each */
export async function missingRights(query: Query, rights: readonly Right[]): Promise<string | undefined> {
  const needed = rights.map(([table, privilege]) => `('${table}', '${privilege}')`).join();
  const [row] = (await query(`
    SELECT string_agg(format('GRANT %s ON %s TO %I', privilege, name, current_user), '; ') AS grants
      FROM (VALUES ${needed}) AS needed (name, privilege)
     WHERE NOT has_any_column_privilege(to_regclass(name), privilege)`)) as [{ grants: string | null }];
  const { grants } = row;
  return grants === null
    ? undefined
    : `the role of DATABASE_URL lacks rights; run, as the owner of the tables: ${grants}`;
}
