import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { connectionConfig, openConnection } from '../src/lib/postgres/index.ts';
import { openStore, type Store } from './commands/store.ts';
import { HOSTILE } from './support/hostile-settings.ts';
import { atTestEnd } from './support/test-end.ts';
import { CSV_HEADER, exportedCsv } from './support/stock.ts';

describe('with foreign settings on the database', () => {
  let store: Store;
  let alter: string;

  beforeAll(async () => {
    store = await openStore();
    alter = `ALTER DATABASE ${new URL(store.url).pathname.slice(1)}`;
  });

  async function emptyWith(...settings: string[]): Promise<void> {
    await store.sql(`${alter} RESET ALL; DELETE FROM inventory_item; DELETE FROM api_key`);
    for (const setting of settings) await store.sql(`${alter} SET ${setting}`);
  }

  it('the commands do what they say with all of them at once', async () => {
    const compatible = HOSTILE.flat().filter((setting) => !setting.includes('serializable'));
    // On a busy machine, the first statement of a connection comes late, and takes longer than some milliseconds.
    await emptyWith(
      ...compatible.map((setting) =>
        setting.replace(/^((statement|transaction|idle_session)_timeout) = .*/, '$1 = 800'),
      ),
    );
    await store.sql(`CREATE FUNCTION take_longer() RETURNS TRIGGER LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(1); RETURN NULL; END';
      CREATE TRIGGER take_longer AFTER INSERT ON inventory_item EXECUTE FUNCTION take_longer();
      CREATE TRIGGER take_longer AFTER INSERT ON api_key EXECUTE FUNCTION take_longer()`);
    await atTestEnd(() => store.sql('DROP FUNCTION take_longer CASCADE'));
    const pet = '7,8,sold\n';
    const imported = await store.inventoryReading(CSV_HEADER + pet, 'import', '-');
    const create = ['keys', 'create', '--name', 'Kässe 3', '--expires', '2d'];
    const others = [['migrate'], ['export'], create, ['history', '7'], ['check'], ['export', '--at', '0s']];
    const runs = [imported];
    for (const args of others) runs.push(await store.inventory(...args));
    for (const { code, stdout, stderr } of runs) expect(code, `${stdout}${stderr}`).toBe(0);
    const [, , exported, , history, checked, then] = runs;
    expect([exported?.stdout, then?.stdout]).toEqual([exportedCsv(pet), exportedCsv(pet)]);
    expect([history?.stdout, checked?.stdout]).toEqual([
      expect.stringContaining('8 sold'),
      expect.stringMatching(/^ok +clock/m),
    ]);
    const rounded = await store.inventoryReading(`${CSV_HEADER}1234567890123450000,8,sold\n`, 'import', '-');
    expect(rounded.stderr).toContain('may be rounded'); // by a pattern with a backslash
    const { stdout } = await store.inventory('keys', 'list', '--json');
    const [key] = JSON.parse(stdout) as { id: string; name: string; state: string; createdAt: string }[];
    expect(key).toMatchObject({ name: 'Kässe 3', state: 'live' });
    expect(Math.abs(Date.parse(key?.createdAt ?? '') - Date.now())).toBeLessThan(60_000);
    const rotated = await store.inventory('keys', 'rotate', key?.id ?? '', '--overlap', '2d', '--expires', '2d');
    expect(rotated.code, rotated.stderr).toBe(0);
    const lasts = `SELECT expires_at BETWEEN now() + interval '47 hours' AND now() + interval '2 days' AS two_days FROM api_key`;
    expect(await store.sql(lasts)).toEqual([{ two_days: true }, { two_days: true }]); // what Prisma writes and reads has no time zone
  });
});

it('an import waits for its file, and an export for its reader, without a bound, and an import for others a minute', async () => {
  const store = await openStore();
  const raising = (returns: string, ...settings: string[]) =>
    `RETURNS ${returns} LANGUAGE plpgsql AS $$BEGIN
       RAISE 'bound: %', concat_ws(', ', ${settings.map((name) => `current_setting('${name}')`).join()}); END$$`;
  await store.sql(`INSERT INTO inventory_item VALUES (1, 1, 'sold');
    CREATE FUNCTION show_reader() ${raising('boolean', 'statement_timeout', 'transaction_isolation', 'transaction_read_only')};
    ALTER TABLE inventory_item RENAME TO stock;
    CREATE VIEW inventory_item AS SELECT * FROM stock WHERE show_reader();
    CREATE FUNCTION show_writer() ${raising('event_trigger', 'statement_timeout')};
    CREATE EVENT TRIGGER show_bound ON ddl_command_end EXECUTE FUNCTION show_writer()`);
  expect((await store.inventory('export')).stderr).toBe('error: bound: 0, read committed, on (P0001)\n');
  const imported = () => store.inventoryReading(CSV_HEADER, 'import', '-');
  expect((await imported()).stderr).toBe('error: bound: 0 (P0001)\n');
  await store.sql('DROP EVENT TRIGGER show_bound');
  for (const [bound, longest] of [
    ['statement_timeout', '30min'],
    ['lock_timeout', '1min'],
  ] as const) {
    // When the import asks for its turn, PostgreSQL calls this function, because its types fit better.
    await store.sql(`CREATE OR REPLACE FUNCTION hashtextextended(text, integer) ${raising('bigint', bound)}`);
    expect((await imported()).stderr).toBe(`error: bound: ${longest} (P0001)\n`);
  }
});

it('a session lets PostgreSQL find out within 25 s that its client has vanished', async () => {
  const session = await openConnection(connectionConfig((await openStore()).url, 'test', {}));
  onTestFinished(() => session.end());
  const { rows } = await session.query<{ seconds: number }>(
    `SELECT current_setting('tcp_keepalives_idle')::int
            + current_setting('tcp_keepalives_interval')::int * current_setting('tcp_keepalives_count')::int AS seconds`,
  );
  expect(rows).toEqual([{ seconds: 25 }]); // docs/guarantees.md, Not covered
});
