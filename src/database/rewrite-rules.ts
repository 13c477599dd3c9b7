/** The names of the tables' rules (CREATE RULE) that fire for these events, in one text; NULL without any. SQL. */
const rulesOn = (events: string) => `(
  SELECT string_agg(format('%I on %I', rulename, relname), ', ' ORDER BY relname, rulename)
    FROM pg_rewrite JOIN pg_class ON pg_class.oid = ev_class
   WHERE ev_enabled IN ('O', 'A') AND (ev_class, ev_type::text) IN (${events}))`;

const [UPDATE, INSERT, DELETE] = ['2', '3', '4'].map((event) => `('inventory_item'::regclass, '${event}')`);
/** Statements that write history have ON CONFLICT, which PostgreSQL refuses where there is a rule for INSERT or for UPDATE. */
const HISTORY = `('stock_change'::regclass, '3'), ('stock_change'::regclass, '2')`;

/**
 * PostgreSQL puts a rule in the place of a statement, or adds to it, and does not tell which rows it wrote. So nothing is written
 * while there is one.
 */
export const RULES_AGAINST = {
  updates: rulesOn(`${UPDATE}, ${HISTORY}`),
  imports: rulesOn(`${UPDATE}, ${INSERT}, ${DELETE}, ${HISTORY}`),
};

/** @param rules as {@link RULES_AGAINST} names them */
export function ruleAgainst(work: keyof typeof RULES_AGAINST, rules: string): string {
  return `no ${work.slice(0, -1)} is possible with the rule ${rules}; drop it (DROP RULE), or write a trigger that raises an error`;
}

/** @returns what a rule keeps from being done, in the operator's words; undefined without a rule */
export async function findRuleAgainst(
  work: keyof typeof RULES_AGAINST,
  query: (sql: string) => Promise<unknown>,
): Promise<string | undefined> {
  const [{ rules }] = (await query(`SELECT ${RULES_AGAINST[work]} AS rules`)) as [{ rules: string | null }];
  return rules === null ? undefined : ruleAgainst(work, rules);
}
