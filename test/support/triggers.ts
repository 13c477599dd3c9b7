import { atTestEnd } from './test-end.ts';

/**
 * Adds a trigger for each row, as an operator might, until the test ends.
 *
 * @param event such as `BEFORE UPDATE ON inventory_item`; a deferred one makes a constraint trigger
 * @param body statements of PL/pgSQL
 */
export async function withTrigger(
  { sql }: { readonly sql: (statement: string) => Promise<unknown> },
  event: string,
  body: string,
): Promise<void> {
  const constraint = event.endsWith('DEFERRED') ? 'CONSTRAINT' : '';
  await sql(
    `CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${body} END $$;
     CREATE ${constraint} TRIGGER meddle ${event} FOR EACH ROW EXECUTE FUNCTION meddle()`,
  );
  await atTestEnd(() => sql('DROP FUNCTION meddle CASCADE'));
}
