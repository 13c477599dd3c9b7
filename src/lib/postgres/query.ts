import type { ClientBase } from 'pg';

/** Runs a statement, and gives its rows. */
export type Query = (sql: string, ...values: unknown[]) => Promise<unknown>;

export function queryOfClient(client: ClientBase): Query {
  return async (sql, ...values) => (await client.query<object>(sql, values)).rows;
}

export function queryOfPrisma(prisma: { readonly $queryRawUnsafe: Query }): Query {
  return (sql, ...values) => prisma.$queryRawUnsafe(sql, ...values);
}
