import { globSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { startService } from '../support/service.ts';
import { addGeneratedColumns } from '../support/hostile-settings.ts';
import { openStore, type Store } from './store.ts';

/** PostgreSQL has these of each table. */
const SYSTEM_COLUMNS = ['tableoid', 'cmax', 'xmax', 'cmin', 'xmin', 'ctid'];
const OWN_COLUMNS = ['pet_id', 'quantity', 'status', 'computed'];

/** All words of our texts in SQL: each name in them is one, whether it is a table's, an alias or a parameter. */
function wordsOfOurSql(): string[] {
  const sources = globSync('src/**/*.ts', { exclude: ['src/generated/**', '**/*.spec.ts'] });
  const texts = sources.flatMap((file) => readFileSync(file, 'utf8').match(/`[^`]*`|'[^'\n]*'/g) ?? []);
  const sql = texts.filter((text) => /\b(?:SELECT|FROM|WHERE|CASE|WITH|RETURNING|AS|SET)\b/.test(text));
  for (const file of globSync('prisma/migrations/*/migration.sql')) sql.push(readFileSync(file, 'utf8'));
  const code = sql.join('\n').replace(/--.*/g, '');
  const words = new Set([...code.matchAll(/\b[a-z]\w{0,62}\b/gi)].map(([word]) => word));
  const columns = [...words, 'quantity_before', 'quantity_after', 'status_before', 'status_after'];
  const own = [...SYSTEM_COLUMNS, ...OWN_COLUMNS];
  return [...new Set(columns)].filter((word) => !own.includes(word) && word !== word.toUpperCase());
}

/** Runs every command. @returns what they print, but for ids, times and keys */
async function runAll({ inventory, inventoryReading, sql }: Store): Promise<string[]> {
  const lines: string[] = [];
  const keep = ({ code, stdout, stderr }: Awaited<ReturnType<typeof inventory>>, ...args: string[]) => {
    const text = `${args.join(' ')}: ${code} ${stdout}${stderr}`;
    lines.push(
      text
        .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '<time>')
        .replaceAll(/psk_\w+|\b[0-9a-z]{8}\b/g, '<key>')
        .replaceAll(/in [\d.]+ s/g, 'in <time>'),
    );
    return stdout;
  };
  const run = async (...args: string[]) => keep(await inventory(...args), ...args);
  const read = async (input: string, ...args: string[]) => keep(await inventoryReading(input, ...args), ...args);
  const file = 'petId,quantity,status\n1,5,available\n2,6,sold\n3,7,pending\n';
  await run('migrate');
  await read(file, 'import', '-', '--by', 'me', '--reason', 'new-arrival');
  await read(`${file.replace('1,5', '1,8')}# end\n`, 'import', '-', '--by', 'me', '--missing', 'remove', '--json');
  const editable = await run('export', '--editable');
  await read(editable.replace('\n2,6,', '\n2,9,'), 'import', '-', '--by', 'me', '--json');
  await read(editable.replace('\n2,6,', '\n2,10,'), 'import', '-', '--by', 'me', '--stale', 'skip');
  await read(file.replace('3,7', '9912140633506420,7'), 'import', '-', '--dry-run', '--new', 'add');
  await sql('DELETE FROM inventory_item WHERE pet_id = 3');
  for (const format of ['csv', 'ndjson', 'json']) {
    await run('export', '--format', format, '--end-mark');
    await run('export', '--format', format, '--at', '3');
  }
  await run('export', '--at', new Date().toISOString());
  await run('history');
  await run('history', '1', '--json');
  await run('history', '--by', 'command:import me');
  await run('history', 'cursor');
  await run('history', '--after', '0');
  await run('history', '--verify');
  await run('history', 'prune', '--before', new Date().toISOString());
  await run('history', '--verify');
  await run('keys', 'create', '--name', 'till');
  await run('keys', 'list');
  lines.push(`check: ${(await inventory('check')).code}`);
  return lines;
}

it('columns of any name that an operator adds to inventory_item, and generated ones, change no command', async () => {
  const [plain, widened] = [await openStore(), await openStore()];
  const words = wordsOfOurSql();
  expect(words.length).toBeGreaterThan(200);
  expect(words).toEqual(expect.arrayContaining(['exported_tag', 'recorded', 'gaps', 'is_last', 'is_after', 'petId']));
  await widened.sql(`ALTER TABLE inventory_item ${words.map((word) => `ADD "${word}" text`).join()}`);
  await addGeneratedColumns(widened.database);
  for (const setting of ['enable_nestloop', 'enable_hashjoin', 'enable_indexscan'])
    await widened.database.set(setting, 'off');
  expect(await runAll(widened)).toEqual(await runAll(plain));

  for (const FAST of ['on', 'off']) {
    const service = await startService({ databaseUrl: widened.url, settings: { FAST } });
    for (const quantity of [21, 22]) {
      const headers = [
        ['If-Match', '*'],
        ['Idempotency-Key', `${FAST}-${quantity}`],
      ] as const;
      const statuses = [service.update(1, quantity), service.update(2, quantity, headers), service.update(3, 1)];
      expect((await Promise.all(statuses)).map(({ status }) => status)).toEqual([200, 200, 404]);
      expect((await service.update(1, quantity)).status).toBe(200);
      expect((await service.list()).text).toBe(
        `[{"petId":1,"quantity":${quantity},"status":"available"},{"petId":2,"quantity":${quantity},"status":"sold"}]`,
      );
    }
    await service.stop();
  }
});
