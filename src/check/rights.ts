import { AS_OWNER } from '../database-errors.ts';
import type { Query } from '../lib/postgres/index.ts';

type Right = readonly [of: string, privilege: string];

/** Without these, lists or updates fail. The key check finds its own. */
export const RIGHTS_OF_REQUESTS: readonly Right[] = [
  ['inventory_item', 'SELECT'],
  ['inventory_item', 'UPDATE'],
  ['stock_change', 'SELECT'],
  ['stock_change', 'INSERT'],
  ['unrecorded_change', 'SELECT'],
  ...['server_life()', 'present_server_life()', 'stock_witness(text)'].map((name): Right => [name, 'EXECUTE']),
];

/** All that the service needs, from its start on. */
export const RIGHTS_OF_SERVICE: readonly Right[] = [
  ...RIGHTS_OF_REQUESTS,
  ['api_key', 'SELECT'],
  ['api_key', 'UPDATE'],
  ['_prisma_migrations', 'SELECT'],
];

/** @returns if rights are missing: that, as whom to grant, and the GRANT for each */
export async function missingRights(
  query: Query,
  rights: readonly Right[],
): Promise<[string, ...string[]] | undefined> {
  const needed = rights.map(([of, privilege]) => `('${of}', '${privilege}')`).join();
  const [row] = (await query(`
    SELECT array_agg(format('GRANT %s ON %s%s TO %I', privilege, CASE privilege WHEN 'EXECUTE' THEN 'FUNCTION ' END,
                             name, current_user)) AS grants,
           ${AS_OWNER} AS "asOwner"
      FROM (VALUES ${needed}) AS needed (name, privilege)
     WHERE NOT CASE privilege WHEN 'EXECUTE' THEN has_function_privilege(name::regprocedure, privilege)
                              ELSE has_table_privilege(name::regclass, privilege) END`)) as [
    { grants: string[] | null; asOwner: string },
  ];
  const { grants, asOwner } = row;
  return grants ? ['the role of DATABASE_URL lacks rights', asOwner, ...grants] : undefined;
}
