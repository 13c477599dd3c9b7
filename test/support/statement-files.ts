import { expect } from 'vitest';
import type { Database } from './database.ts';

/**
 * Compares the file of a statement with its head and the text that is sent. With `-u`, Vitest writes the file anew.
 *
 * @param sql as the service sends it
 * @param head becomes comments, which the service does not send. A line describes each parameter, such as `$1: …`;
 * PostgreSQL adds the type.
 */
export async function expectFile(database: Database, file: string, sql: string, head: string): Promise<void> {
  const session = await database.session();
  await session.query(`PREPARE statement AS ${sql}`);
  const { rows } = await session.query<{ types: string[] }>(
    `SELECT parameter_types::text[] AS types FROM pg_prepared_statements WHERE name = 'statement'`,
  );
  const parameters = (rows[0]?.types ?? []).map((type, at) => [`$${at + 1}`, type] as const);
  expect(head.match(/^ *\$\d+(?=:)/gm)?.map((name) => name.trim())).toEqual(parameters.map(([name]) => name));
  const described = parameters.reduce((text, [name, type]) => text.replace(`${name}:`, () => `${name} ${type}:`), head);
  const comments = described.trim().replaceAll(/^ */gm, '-- ').replaceAll(/ +$/gm, '');
  await expect(`${comments}\n\n${sql.replace(/^\n/, '').trimEnd()}\n`).toMatchFileSnapshot(file);
}
