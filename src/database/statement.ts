import { hash } from 'node:crypto';

export interface Statement {
  readonly sql: string;
  readonly values: unknown[];
}

/** A row's columns as PostgreSQL wrote them. */
export type TextRow = readonly (string | null)[];

const names = new Map<string, string>();

/** Depends on the text alone, so that in a session that a pooler gives to several processes none can run another's plan. */
export function statementName({ sql }: Pick<Statement, 'sql'>): string {
  let name = names.get(sql);
  if (name === undefined) names.set(sql, (name = `inventory_${hash('sha256', sql).slice(0, 32)}`));
  return name;
}
