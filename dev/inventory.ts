import { applyMigrations } from '../src/database/migrations.ts';
import { buildIfStale } from './build.ts';
import { showInventory } from './inventory-command.ts';
import { runningProjectDatabase, startProjectDatabase } from './project-database.ts';

/* `npm run inventory -- …` on DATABASE_URL, or else on the database of `npm start`, which need not be running. */
try {
  await buildIfStale();
  process.exitCode = await onDatabase(process.env['DATABASE_URL'] ?? (await runningProjectDatabase()));
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
}

async function onDatabase(url: string | undefined): Promise<number> {
  if (url) return inventory(url);
  const database = await startProjectDatabase();
  try {
    await applyMigrations(database.url);
    return await inventory(database.url);
  } finally {
    await database.stop();
  }
}

function inventory(url: string): Promise<number> {
  return showInventory({ ...process.env, DATABASE_URL: url }, process.argv.slice(2));
}
