import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { startService } from '../support/service.ts';
import { atTestEnd } from '../support/test-end.ts';
import { CSV_HEADER, exportedCsv } from '../support/stock.ts';
import { END_MARK, EXPORT_FAILED, failed, IMPORT_CSV, inventory } from './inventory-command.ts';
import { openStore, type Store } from './store.ts';

let store: Store;
/** Of a role to which the tables do not belong. */
let url: string;
let role: string;

beforeAll(async () => {
  role = `clerk_${randomUUID().replaceAll('-', '')}`;
  store = await openStore();
  await store.sql(`CREATE ROLE ${role} LOGIN PASSWORD 'clerk'`);
  await atTestEnd(() => store.database.sql(`DROP OWNED BY ${role}; DROP ROLE ${role}`));
  url = Object.assign(new URL(store.url), { username: role, password: 'clerk' }).href;
  await store.database.stock([1, 1], [2, 2]);
});

const grant = (kind: string) => store.sql(`GRANT ALL ON ALL ${kind} IN SCHEMA public TO ${role}`);
/** Of PostgreSQL's own words, which have any language, only the name of the table is compared. */
const named = (words: unknown) => String(words).replace(/\(.*?([a-z_]*_[a-z_]+).*?\)/, '($1)');
async function outcomeOf(args: readonly string[], input?: string) {
  const outcome = await inventory(url, args, input);
  return { ...outcome, stderr: named(outcome.stderr) };
}
const lacks = (table: string) =>
  `the role of DATABASE_URL lacks a right (${table}); a service needs what "inventory check" names, commands need the owner of the tables, and an import also TEMPORARY on the database ("Start" in docs/operations.md)`;

it('a role learns that the tables belong to another one, also when it may use all but the sequence', async () => {
  expect(await outcomeOf(['keys', 'list'])).toEqual(failed(lacks('api_key')));
  const { url: address } = await startService({ databaseUrl: url, awaitsReady: false });
  const becomes = (status: number) =>
    expect.poll(async () => (await fetch(`${address}/health/ready`)).status).toBe(status);
  await becomes(503);
  await grant('TABLES');
  await store.sql(`GRANT CREATE ON SCHEMA public TO ${role}`); // as the owner of the database
  await becomes(200);
  await store.sql(`REVOKE UPDATE ON inventory_item FROM ${role}`);
  await becomes(503);
  await store.sql(`GRANT UPDATE ON inventory_item TO ${role}`);
  await becomes(200);
  expect(await outcomeOf(['migrate'])).toEqual(failed(lacks('stock_change_id_seq')));
});

describe('row security', () => {
  beforeAll(async () => {
    await grant('TABLES');
    await grant('SEQUENCES');
    for (const table of ['inventory_item', 'stock_change'])
      await store.sql(
        `ALTER TABLE ${table} ENABLE ROW LEVEL SECURITY; CREATE POLICY one ON ${table} USING (pet_id = 1)`,
      );
  });

  it.each([
    ['inventory_item', ['export']],
    ['stock_change', ['export', '--at', '1']],
    ['inventory_item', [...IMPORT_CSV, '--missing', 'remove']],
    ['inventory_item', [...IMPORT_CSV, '--dry-run']],
    ['stock_change', ['history', '--verify']],
    ['stock_change', ['history']],
    ['stock_change', ['history', '--after', '0']],
    ['stock_change', ['history', 'cursor']],
    ['stock_change', ['history', 'prune', '--before', '0s']],
  ])('on %s makes %j fail, which would take a part for the whole', async (table, args) => {
    const before = [await store.stock(), await store.changes()];
    const outcome = await outcomeOf(args, `${CSV_HEADER}1,5,sold\n${END_MARK}`);
    const why = `row security hides rows from the role of DATABASE_URL (${table}); use a role with BYPASSRLS, or the owner of the table if that sees all rows`;
    expect(outcome).toEqual(failed(why, args[0] === 'export' ? EXPORT_FAILED : ''));
    expect([await store.stock(), await store.changes()]).toEqual(before);
  });

  it('lets the owner of the tables read all, and "migrate" repair all', async () => {
    expect((await store.inventory('export')).stdout).toBe(exportedCsv('1,1,available\n2,2,available\n'));
    expect(await store.inventory('migrate')).toMatchObject({ code: 0 });
  });
});
