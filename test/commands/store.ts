import { createDatabase } from '../support/database.ts';
import { inventory } from './inventory-command.ts';

export type Store = Awaited<ReturnType<typeof openStore>>;

/** Creates an empty store, and runs the `inventory` command on it. */
export async function openStore() {
  const database = await createDatabase();
  const { url } = database;
  const client = await database.session(); // one session, which keeps its settings

  /** Runs SQL without the command; int8 is text. */
  async function sql<Row extends object = Record<string, unknown>>(
    statement: string,
    values: unknown[] = [],
  ): Promise<Row[]> {
    return (await client.query<Row>(statement, values)).rows;
  }
  async function lines(query: string): Promise<string[]> {
    return (await sql<{ line: string }>(query)).map(({ line }) => line);
  }
  return {
    url,
    database,
    sql,
    inventory: (...args: string[]) => inventory(url, args),
    inventoryReading: (input: string | Buffer, ...args: string[]) => inventory(url, args, input),

    /** All pets as CSV, read by SQL. */
    async stock(): Promise<string> {
      const pets = `SELECT concat_ws(',', pet_id, quantity, status) || E'\\n' AS line FROM inventory_item ORDER BY pet_id`;
      return (await lines(pets)).join('');
    },

    /** The history in short: pet, state before, state after, author. */
    changes: () =>
      lines(
        `SELECT concat_ws(' ', pet_id, quantity_before, status_before, '>', quantity_after, status_after, changed_by) AS line
           FROM stock_change ORDER BY pet_id, id`,
      ),

    /** Changes the history without its triggers, which would refuse that. */
    async rewriteHistory(statement: string): Promise<void> {
      const triggers = (state: string) => `ALTER TABLE stock_change ${state} TRIGGER ALL`;
      await sql([triggers('DISABLE'), statement, triggers('ENABLE')].join(';'));
    },
  };
}
