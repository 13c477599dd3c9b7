import { createDatabase, type Database } from '../support/database.ts';
import { inventory, type Outcome } from './inventory-command.ts';

/** An empty store of a test file's own, and the command on it. */
export interface Store {
  readonly url: string;
  /** By connections of their own. */
  readonly database: Database;
  /** One SQL statement; int8 as text. */
  sql<Row extends object = Record<string, unknown>>(statement: string, values?: readonly unknown[]): Promise<Row[]>;
  /** Runs the `inventory` command. */
  inventory(...args: string[]): Promise<Outcome>;
  /** Runs it with standard input. */
  inventoryReading(input: string | Buffer, ...args: string[]): Promise<Outcome>;
  /** All pets as CSV, by SQL rather than by the command. */
  stock(): Promise<string>;
  /** The history behind a change in short: each pet, what it was, what it became, by whom. */
  changes(after?: string): Promise<string[]>;
  close(): Promise<void>;
}

export async function openStore(): Promise<Store> {
  const database = await createDatabase();
  const client = await database.session();

  async function sql<Row extends object>(statement: string, values: readonly unknown[] = []): Promise<Row[]> {
    return (await client.query<Row>(statement, [...values])).rows;
  }
  async function lines(statement: string, values: readonly unknown[] = []): Promise<string[]> {
    return (await sql<{ line: string }>(statement, values)).map(({ line }) => line);
  }
  return {
    url: database.url,
    database,
    sql,
    inventory: (...args) => inventory(database.url, args),
    inventoryReading: (input, ...args) => inventory(database.url, args, input),
    async stock() {
      const pets = `SELECT concat_ws(',', pet_id, quantity, status) || E'\\n' AS line FROM inventory_item ORDER BY pet_id`;
      return (await lines(pets)).join('');
    },
    changes: (after = '0') =>
      lines(
        `SELECT concat_ws(' ', pet_id, quantity_before, status_before, '>', quantity_after, status_after, changed_by) AS line
           FROM stock_change WHERE id > $1 ORDER BY pet_id, id`,
        [after],
      ),
    async close() {
      await client.end();
      await database.drop();
    },
  };
}
